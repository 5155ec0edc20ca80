package testgen

import (
	"bytes"
	"compress/gzip"

	"github.com/klauspost/compress/zstd"
)

// Gzip returns a text as one gzip member.
func Gzip(text string) string {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	z.Write([]byte(text)) // a bytes.Buffer returns no error
	z.Close()
	return out.String()
}

// Zstd returns a text as one Zstandard frame.
func Zstd(text string) string {
	z, err := zstd.NewWriter(nil)
	if err != nil {
		panic(err)
	}
	defer z.Close()
	return string(z.EncodeAll([]byte(text), nil))
}
