package corpus

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
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

// xzed returns a stream of xz that stores s. Decoding takes a dictionary of
// (2 | dictionary&1) << (dictionary/2 + 11) bytes.
func xzed(s string, dictionary byte) string {
	checked := func(b string) string { // with its CRC32
		return string(binary.LittleEndian.AppendUint32([]byte(b), crc32.ChecksumIEEE([]byte(b))))
	}
	padded := func(b string) string { return b + strings.Repeat("\x00", -len(b)&3) }
	var chunks []byte
	for i := 0; i < len(s); i += 1 << 16 {
		chunk := s[i:min(len(s), i+1<<16)]
		chunks = append(append(chunks, 1), byte((len(chunk)-1)>>8), byte(len(chunk)-1))
		chunks = append(chunks, chunk...)
	}
	chunks = append(chunks, 0)
	header := checked("\x02\x00\x21\x01" + string([]byte{dictionary}) + "\x00\x00\x00")
	unpadded := binary.AppendUvarint([]byte("\x00\x01"), uint64(len(header)+len(chunks)+4))
	index := checked(padded(string(binary.AppendUvarint(unpadded, uint64(len(s))))))
	backward := string(binary.LittleEndian.AppendUint32(nil, uint32(len(index)/4-1))) + "\x00\x01"
	return string(xzMagic) + checked("\x00\x01")[:6] + header + padded(string(chunks)) +
		checked(s)[len(s):] + index +
		checked(backward)[6:] + backward + "YZ"
}

// brotlied returns a Brotli stream.
func brotlied(s string) string {
	var b bytes.Buffer
	z := brotli.NewWriter(&b)
	z.Write([]byte(s))
	z.Close()
	return b.String()
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

// brief returns a line per record.
func brief(records []Record) string {
	var b strings.Builder
	for _, rec := range records {
		switch {
		case rec.Skip != nil && rec.Skip.Document:
			fmt.Fprintf(&b, "%s lost %s", rec.Key, rec.Skip.Reason)
		case rec.Skip != nil:
			fmt.Fprintf(&b, "%s pass %s", rec.Key, rec.Skip.Reason)
		case rec.Kind == Fingerprint:
			fmt.Fprintf(&b, "%s %v", rec.Key, rec.Fingerprint)
		default:
			fmt.Fprintf(&b, "%s %s %s", rec.Key, map[Kind]string{HTML: "html",
				Text: "text"}[rec.Kind], rec.Content)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func check(t *testing.T, got []Record, want ...string) {
	t.Helper()
	if got, want := brief(got), strings.Join(want, "\n")+"\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
