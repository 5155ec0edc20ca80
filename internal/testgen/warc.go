package testgen

import (
	"bytes"
	"compress/gzip"
	"crypto/sha1"
	"encoding/base32"
	"fmt"
	"strings"
	"time"
)

// field is one line of a header block.
type field struct{ name, value string }

// warcWriter writes WARC/1.1 records (ISO 28500:2017), each a gzip member of
// its own, or plain.
type warcWriter struct {
	rng   *rng
	out   bytes.Buffer
	plain bool
	time  int // seconds since the first record
}

// id returns a record id: a version 4 UUID drawn from the seed.
func (w *warcWriter) id() string {
	return fmt.Sprintf("<urn:uuid:%s-%s-4%s-%c%s-%s>",
		w.rng.hex(8), w.rng.hex(4), w.rng.hex(3), "89ab"[w.rng.intn(4)], w.rng.hex(3), w.rng.hex(12))
}

// date returns the time of the next record.
func (w *warcWriter) date() string {
	w.time += w.rng.between(1, 9)
	return time.Date(2026, 10, 12, 8, 0, w.time, 0, time.UTC).Format(time.RFC3339)
}

// record writes one record and returns its id.
func (w *warcWriter) record(kind string, content []byte, fields ...field) (string, error) {
	id := w.id()
	var b bytes.Buffer
	b.WriteString("WARC/1.1\r\n")
	writeFields(&b, append([]field{
		{"WARC-Type", kind},
		{"WARC-Record-ID", id},
		{"WARC-Date", w.date()},
	}, fields...))
	writeFields(&b, []field{
		{"WARC-Block-Digest", digest(content)},
		{"Content-Length", fmt.Sprint(len(content))},
	})
	b.WriteString("\r\n")
	b.Write(content)
	b.WriteString("\r\n\r\n")

	if w.plain {
		b.WriteTo(&w.out)
		return id, nil
	}
	member := gzip.NewWriter(&w.out)
	if _, err := member.Write(b.Bytes()); err != nil {
		return "", fmt.Errorf("testgen: warc record: %w", err)
	}
	if err := member.Close(); err != nil {
		return "", fmt.Errorf("testgen: warc record: %w", err)
	}
	return id, nil
}

func writeFields(b *bytes.Buffer, fields []field) {
	for _, f := range fields {
		fmt.Fprintf(b, "%s: %s\r\n", f.name, f.value)
	}
}

// digest is the labelled form that WARC files use.
func digest(content []byte) string {
	sum := sha1.Sum(content)
	return "sha1:" + base32.StdEncoding.EncodeToString(sum[:])
}

// exchange is one HTTP request and what came back.
type exchange struct {
	uri    string
	fields []field
	body   []byte
}

func (e exchange) response() []byte {
	var b bytes.Buffer
	b.WriteString("HTTP/1.1 200 OK\r\n")
	writeFields(&b, e.fields)
	b.WriteString("\r\n")
	b.Write(e.body)
	return b.Bytes()
}

func (e exchange) request() []byte {
	host, path, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(e.uri, "https://"), "http://"), "/")
	var b bytes.Buffer
	fmt.Fprintf(&b, "GET /%s HTTP/1.1\r\n", path)
	writeFields(&b, []field{{"Host", host}, {"User-Agent", "testgen"}, {"Accept-Encoding", "gzip"}})
	b.WriteString("\r\n")
	return b.Bytes()
}
