package corpus

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// MB/s of the bytes as they are stored: for .gz, compressed ones.
func BenchmarkRead(b *testing.B) {
	for _, input := range []struct {
		name   string
		format Format
		stored string
	}{
		{"testdata/sample.warc.gz", WARC, ""}, {"testdata/pages.jsonl.gz", JSONL, ""},
		{"warc/aut-example.warc.gz", WARC, ""}, {"pages/docs.jsonl.gz", JSONL, ""}, {"revisions/docs.jsonl.gz", JSONL, ""},
		{"fingerprints", Fingerprints, strings.Repeat("0123456789abcdef\thttp://example.com/a/page.html\n", 100_000)},
		{"u64le", U64LE, strings.Repeat("12345678", 1_000_000)},
	} {
		b.Run(input.name, func(b *testing.B) {
			stored := []byte(input.stored)
			if len(stored) == 0 {
				var err error
				if stored, err = os.ReadFile(inputPath(b, input.name)); err != nil {
					b.Fatal(err)
				}
			}
			b.SetBytes(int64(len(stored)))
			b.ReportAllocs()
			for b.Loop() {
				r := newReader(b, Options{Format: input.format, Stdin: bytes.NewReader(stored)}, "-")
				if n, err := countUntilError(b.Context(), r); n == 0 || err != nil {
					b.Fatal(n, err)
				}
			}
		})
	}
}
