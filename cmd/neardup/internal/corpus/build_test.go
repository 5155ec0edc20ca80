package corpus

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// What tests put their inputs together with.

const page = "<html><p>A page.</p></html>"

// record is a WARC record; fields are further lines of its header.
func record(kind, uri, contentType, block string, fields ...string) string {
	header := "WARC/1.0\r\nWARC-Type: " + kind + "\r\n"
	if uri != "" {
		header += "WARC-Target-URI: " + uri + "\r\n"
	}
	for _, field := range fields {
		header += field + "\r\n"
	}
	return fmt.Sprintf("%sContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s\r\n\r\n", header, contentType, len(block), block)
}

// response is a record of a page that came by HTTP.
func response(uri, body string) string {
	return httpRecord(uri, "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"+body)
}

func httpRecord(uri, message string) string {
	return record("response", uri, "application/http; msgtype=response", message)
}

// withLength gives the first record of a file another Content-Length line.
func withLength(file, line string) string {
	head, rest, _ := strings.Cut(file, "Content-Length: ")
	_, rest, _ = strings.Cut(rest, "\r\n")
	return head + line + "\r\n" + rest
}

// gzipped is one gzip member.
func gzipped(s string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Write([]byte(s))
	z.Close()
	return b.String()
}

// zstded is one Zstandard frame.
func zstded(s string, options ...zstd.EOption) string {
	z, err := zstd.NewWriter(nil, options...)
	if err != nil {
		panic(err)
	}
	defer z.Close()
	return string(z.EncodeAll([]byte(s), nil))
}

// readString reads an input that is not a file.
func readString(t testing.TB, opts Options, input string) []Record {
	t.Helper()
	opts.Stdin = strings.NewReader(input)
	records, _ := readAll(t, opts, "-")
	return records
}

// brief is records in short, a line each.
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
			fmt.Fprintf(&b, "%s %s %s", rec.Key, rec.Kind, rec.Content)
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
