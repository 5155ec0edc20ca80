package corpus

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"strings"
	"testing"
)

func benchmark(b *testing.B, format Format, input []byte) {
	b.Helper()
	b.SetBytes(int64(len(input)))
	b.ReportAllocs()
	for b.Loop() {
		r := newReader(b, Options{Format: format, Stdin: bytes.NewReader(input)}, "-")
		if _, err := countUntilError(b.Context(), r); err != nil || totalsOf(r).Documents == 0 {
			b.Fatal("no documents", err)
		}
	}
}

// MB/s of the bytes as they are stored: for .gz, compressed ones.
func BenchmarkRead(b *testing.B) {
	for _, file := range []struct {
		name   string
		format Format
	}{
		{"testdata/sample.warc.gz", WARC}, {"testdata/pages.jsonl.gz", JSONL}, {"warc/aut-example.warc.gz", WARC}, {"pages/docs.jsonl.gz", JSONL}, {"revisions/docs.jsonl.gz", JSONL},
	} {
		b.Run(file.name, func(b *testing.B) {
			stored, err := os.ReadFile(inputPath(b, file.name))
			if err != nil {
				b.Fatal(err)
			}
			benchmark(b, file.format, stored)
		})
		b.Run(strings.TrimSuffix(file.name, ".gz"), func(b *testing.B) {
			stored, err := os.ReadFile(inputPath(b, file.name))
			if err != nil {
				b.Fatal(err)
			}
			z, err := gzip.NewReader(bytes.NewReader(stored))
			if err != nil {
				b.Fatal(err)
			}
			plain, err := io.ReadAll(z)
			if err != nil {
				b.Fatal(err)
			}
			benchmark(b, file.format, plain)
		})
	}
	b.Run("fingerprints", func(b *testing.B) {
		benchmark(b, Fingerprints, []byte(strings.Repeat("0123456789abcdef\thttp://example.com/a/page.html\n", 100_000)))
	})
	b.Run("u64le", func(b *testing.B) { benchmark(b, U64LE, bytes.Repeat([]byte("12345678"), 1_000_000)) })
}
