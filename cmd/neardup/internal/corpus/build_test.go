package corpus

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/zlib"
	"github.com/neardup/neardup/internal/testing/testenv"
	"github.com/neardup/neardup/internal/testing/testgen"
)

var must = testenv.Must

const page = "<html><p>A page.</p></html>"

// record returns a WARC record with the given fields in addition to its usual ones.
func record(kind, uri, contentType, block string, fields ...string) string {
	header := "WARC/1.0\r\nWARC-Type: " + kind + "\r\n"
	if uri != "" {
		header += "WARC-Target-URI: " + uri + "\r\n"
	}
	for _, field := range fields {
		header += field + "\r\n"
	}
	return fmt.Sprintf("%sContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s\r\n\r\n", header,
		contentType, len(block), block)
}

// response returns a WARC record of an HTTP response with a page.
func response(uri, body string) string {
	return httpRecord(uri, "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"+body)
}

func httpRecord(uri, message string) string {
	return record("response", uri, "application/http; msgtype=response", message)
}

// withLength replaces the Content-Length line of the first record of a file.
func withLength(file, line string) string {
	head, rest, _ := strings.Cut(file, "Content-Length: ")
	_, rest, _ = strings.Cut(rest, "\r\n")
	return head + line + "\r\n" + rest
}

var gzipped, zstded = testgen.Gzip, testgen.Zstd

// packed returns s, compressed with a writer.
func packed(s string, writer func(io.Writer) io.WriteCloser) string {
	var b bytes.Buffer
	z := writer(&b)
	io.WriteString(z, s)
	z.Close()
	return b.String()
}

func brotlied(s string) string {
	return packed(s, func(w io.Writer) io.WriteCloser { return brotli.NewWriter(w) })
}

func zlibbed(s string) string {
	return packed(s, func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) })
}

func deflated(s string) string {
	return packed(s, func(w io.Writer) io.WriteCloser {
		z, _ := flate.NewWriter(w, 5)
		return z
	})
}

// xzed returns an output of xz -9 with six lines of JSON, and sets the size of its dictionary to
// (2 | size&1) << (size/2 + 11) bytes.
func xzed(size byte) string {
	b, err := os.ReadFile("testdata/lines.jsonl.xz")
	if err != nil {
		panic(err)
	}
	b[16] = size
	binary.LittleEndian.PutUint32(b[20:], crc32.ChecksumIEEE(b[12:20]))
	return string(b)
}

// chunked returns s in chunks of n bytes.
func chunked(s string, n int) string {
	var b strings.Builder
	for chunk := range slices.Chunk([]byte(s), n) {
		fmt.Fprintf(&b, "%x\r\n%s\r\n", len(chunk), chunk)
	}
	return b.String() + "0\r\n\r\n"
}

func newReader(t testing.TB, opts Options, inputs ...string) *Reader {
	t.Helper()
	r, err := New(inputs, opts)
	must(t, err)
	return r
}

// readAll reads all records and checks the totals.
func readAll(t testing.TB, r *Reader) (records []Record) {
	t.Helper()
	for u, err := range r.RawRecords(context.Background()) {
		must(t, err)
		records = append(records, u.Parse())
	}
	checkTotals(t, records, r.Totals())
	return records
}

func readFiles(t testing.TB, opts Options, inputs ...string) []Record {
	t.Helper()
	return readAll(t, newReader(t, opts, inputs...))
}

// readString reads standard input.
func readString(t testing.TB, opts Options, input string) []Record {
	t.Helper()
	opts.Stdin = strings.NewReader(input)
	return readFiles(t, opts, "-")
}

func checkTotals(t testing.TB, records []Record, totals Totals) {
	t.Helper()
	var documents, skips int64
	numbers := map[string]int64{}
	for _, rec := range records {
		numbers[rec.Source]++
		if rec.Number != numbers[rec.Source] {
			t.Errorf("%s: record %d has number %d", rec.Source, numbers[rec.Source], rec.Number)
		}
		switch {
		case rec.Skip != nil:
			skips++
			if rec.Skip.Reason == "" || rec.Kind != 0 || rec.Content != nil {
				t.Errorf("a skip without a reason or with content: %+v", rec)
			}
		case rec.Kind == Fingerprint && rec.Content == nil,
			(rec.Kind == HTML || rec.Kind == Text) && len(rec.Content) > 0:
			documents++
		default:
			t.Errorf("a document without a kind or without content: %+v", rec)
		}
	}
	var counted int64
	for _, n := range totals.Skipped {
		counted += n
	}
	if totals.Records != int64(len(records)) || totals.Documents != documents || counted != skips ||
		totals.Records-totals.Documents != skips || totals.Records != totals.Documents+counted {
		t.Errorf("totals %+v of %d documents, %d skips", totals, documents, skips)
	}
}

func writeFiles(t testing.TB, files map[string]string) (folder string) {
	t.Helper()
	folder = t.TempDir()
	for name, content := range files {
		path := filepath.Join(folder, filepath.FromSlash(name))
		must(t, os.MkdirAll(filepath.Dir(path), 0o777))
		must(t, os.WriteFile(path, []byte(content), 0o666))
	}
	return folder
}

// describe returns a text per record: its key, and its kind and content or the reason of its skip.
func describe(records []Record) (texts []string) {
	for _, rec := range records {
		text := string(rec.Content)
		switch {
		case rec.Skip != nil && rec.Skip.Document:
			text = "lost " + rec.Skip.Reason
		case rec.Skip != nil:
			text = "pass " + rec.Skip.Reason
		case rec.Kind == Fingerprint:
			text = rec.Fingerprint.String()
		case rec.Kind == HTML:
			text = "html " + text
		default:
			text = "text " + text
		}
		texts = append(texts, rec.Key+" "+text)
	}
	return texts
}

// brief returns a line per record.
func brief(records []Record) string { return strings.Join(append(describe(records), ""), "\n") }

func check(t *testing.T, got []Record, want ...string) {
	t.Helper()
	if got, want := brief(got), strings.Join(want, "\n")+"\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
