package testgen

import (
	"bytes"
	"compress/gzip"

	"github.com/klauspost/compress/zstd"
)

// Gzip is a text as one gzip member.
func Gzip(text string) string {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	z.Write([]byte(text)) // a bytes.Buffer takes all
	z.Close()
	return out.String()
}

// Zstd is a text as one Zstandard frame.
func Zstd(text string) string {
	z, err := zstd.NewWriter(nil)
	if err != nil {
		panic(err)
	}
	defer z.Close()
	return string(z.EncodeAll([]byte(text), nil))
}
