package corpus

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/mail"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/neardup/neardup/internal/testing/testgen"
)

// expectDocuments reads an archive with one record per gzip member with the standard library. It
// returns the number of records, and a text per document as describe does.
func expectDocuments(t *testing.T, path string) (records int64, documents []string) {
	t.Helper()
	file, err := os.ReadFile(path)
	must(t, err)
	for in := bytes.NewReader(file); in.Len() > 0; records++ {
		z, err := gzip.NewReader(in)
		must(t, err)
		z.Multistream(false)
		record, err := io.ReadAll(z)
		must(t, err)
		_, record, _ = bytes.Cut(record, []byte("\r\n")) // the version
		message, err := mail.ReadMessage(bytes.NewReader(record))
		must(t, err)
		kind, media := message.Header.Get("Warc-Type"), message.Header.Get("Content-Type")
		body, err := io.ReadAll(message.Body)
		must(t, err)
		body = bytes.TrimSuffix(body, []byte("\r\n\r\n"))
		switch {
		case kind == "response" && strings.HasPrefix(media, "application/http"):
			// in one of the archives; net/http refuses it
			body = bytes.ReplaceAll(body, []byte("Content-Length: -1\r\n"), nil)
			response, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(body)), nil)
			must(t, err)
			if response.StatusCode != 200 {
				continue
			}
			media = response.Header.Get("Content-Type")
			_, body, _ = bytes.Cut(body, []byte("\r\n\r\n"))
			// if the body is not chunked after all, only the header says so
			if dechunked, err := io.ReadAll(response.Body); err == nil &&
				len(response.TransferEncoding) > 0 {
				body = dechunked
			}
		case kind != "conversion":
			continue
		}
		for name, of := range map[string]string{"html": "text/html", "text": "text/plain"} {
			if strings.HasPrefix(media, of) && len(body) > 0 {
				documents = append(documents, fmt.Sprintf("%s %s %s",
					message.Header.Get("Warc-Target-Uri"), name, body))
			}
		}
	}
	return records, documents
}

func TestArchives(t *testing.T) {
	for name, documents := range map[string]int{
		"testdata/sample.warc.gz": 13, "testdata/sample.wet.gz": 6,
		"warc/aut-example.warc.gz": 129, "warc/pywb-iana.warc.gz": 16, "warc/whirlwind.warc.gz": 1,
		"warc/whirlwind.warc.wet.gz": 1,
	} {
		t.Run(name, func(t *testing.T) {
			path := name
			if strings.HasPrefix(name, "warc/") {
				path = testgen.Shared(t, name)
			}
			r := newReader(t, Options{}, path)
			got := describe(slices.DeleteFunc(readAll(t, r), func(rec Record) bool {
				return rec.Skip != nil
			}))
			records, want := expectDocuments(t, path)
			if !slices.Equal(got, want) || len(want) != documents ||
				r.Totals().Records != records {
				t.Errorf("%d documents, want %d; %+v, want %d records", len(got), len(want),
					r.Totals(), records)
			}
			for i := range min(len(got), len(want)) {
				if got[i] != want[i] {
					t.Errorf("document %d: %.500s\nwant\n%.500s", i, got[i], want[i])
				}
			}
		})
	}
}
