package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/neardup/neardup/internal/testing/testgen"
)

// TestBrokenInput tests a broken file. Each subcommand must process the readable part, report
// where the file is broken, and fail.
func TestBrokenInput(t *testing.T) {
	t.Parallel()
	line := `{"key":"one","fingerprint":"00000000000000ff"}` + "\n"
	// The line is so long that some of it is decompressed before the end is found missing.
	long := line + `{"key":"two","fingerprint":"` + strings.Repeat("z", 1<<20) + `"}` + "\n"
	whole := testgen.Gzip(line)
	record := "WARC/1.0\r\nWARC-Type: resource\r\nWARC-Target-URI: one\r\nContent-Type: " +
		"text/plain\r\nContent-Length: 9\r\n\r\nsome text\r\n\r\n"
	for _, c := range []struct {
		name, file, content string
		reason              string
	}{
		{"a cut gzip", "x.jsonl.gz", testgen.Gzip(long)[:500], "truncated gzip"},
		{"a wrong checksum", "x.jsonl.gz", whole[:len(whole)-8] + "12345678", "bad gzip"},
		{"a cut zstd", "x.jsonl.zst",
			testgen.Zstd(line +
				strings.Repeat(" ", 1<<20))[:len(testgen.Zstd(line+strings.Repeat(" ", 1<<20)))-20],
			"truncated zstd"},
		{"rubbish behind a gzip", "x.jsonl.gz", whole + "rubbish", "bad gzip"},
		{"a cut archive", "x.warc", record + record[:len(record)-8], "truncated record"},
		{"a cut header of an archive", "x.warc", record + record[:40], "truncated record header"},
	} {
		t.Run(c.name, func(t *testing.T) {
			name := writeFile(t, c.file, c.content)
			for _, args := range [][]string{
				{"dedup", name}, {"fingerprint", name},
			} {
				wantBroken(t, args, nil, name, c.reason)
			}
			if strings.Contains(c.file, "jsonl") {
				wantBroken(t, []string{"import", "--format", "jsonl", "--index",
					filepath.Join(t.TempDir(), "ix"), name}, nil, name, c.reason)
			}
		})
	}
	t.Run("truncated numbers", func(t *testing.T) {
		name := writeFile(t, "x.u64le",
			"\xff\x00\x00\x00\x00\x00\x00\x00\xff\x00\x00\x00\x00\x00\x00\x00abc")
		query := writeFile(t, "q.txt", "00000000000000ff\tone\n")
		for _, args := range [][]string{
			{"clusters", name}, {"query", "--scan", name, "--format", "fingerprints", query},
			{"import", "--index", filepath.Join(t.TempDir(), "ix"), name},
		} {
			wantBroken(t, args, nil, name,
				"byte 16: truncated fingerprint: 3 bytes at the end: want 8")
		}
	})
	t.Run("an error of the disk", func(t *testing.T) {
		in := io.MultiReader(strings.NewReader(line),
			iotest.ErrReader(errors.New("the disk is broken")))
		wantBroken(t, []string{"dedup", "-"}, in, "-", "read error: at byte 47: the disk is broken")
	})
}

// wantBroken runs a subcommand with an input in which a document named one is readable.
func wantBroken(t *testing.T, args []string, in io.Reader, name, reason string) {
	t.Helper()
	var out, diagnostics bytes.Buffer
	code := run(context.Background(), args, &streams{in, &out, &diagnostics})
	said := "neardup " + args[0] + ": broken input: " + name + " byte "
	if code != exitDamaged || !strings.Contains(diagnostics.String(), said) ||
		!strings.Contains(diagnostics.String(), reason) {
		t.Errorf("%v: exit code %d, want %q and %q:\n%s", args, code, said, reason, &diagnostics)
	}
	if args[0] == "import" {
		if !strings.Contains(diagnostics.String(), " fingerprints stored") {
			t.Errorf("%v: a readable document was not stored:\n%s", args, &diagnostics)
		}
	} else if !strings.Contains(out.String(), "one") &&
		!strings.Contains(out.String(), "00000000000000ff") {
		t.Errorf("%v: a readable document has no answer: %q\n%s", args, &out, &diagnostics)
	}
}
