package corpus

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/mail"
	"os"
	"strings"
	"testing"

	"github.com/neardup/neardup/internal/testing/testgen"
)

// expectDocuments reads an archive with one record per gzip member with the standard library. It
// returns the number of records by type, and the documents.
func expectDocuments(
	t *testing.T, path string,
) (types map[string]int64, keys []string, contents [][]byte) {
	t.Helper()
	file, err := os.ReadFile(path)
	must(t, err)
	in := bytes.NewReader(file)
	types = make(map[string]int64)
	for in.Len() > 0 {
		z, err := gzip.NewReader(in)
		must(t, err)
		z.Multistream(false)
		record, err := io.ReadAll(z)
		must(t, err)
		_, record, _ = bytes.Cut(record, []byte("\r\n")) // the version
		message, err := mail.ReadMessage(bytes.NewReader(record))
		must(t, err)
		types[message.Header.Get("Warc-Type")]++
		kind, media := message.Header.Get("Warc-Type"), message.Header.Get("Content-Type")
		body, _ := io.ReadAll(message.Body)
		body = bytes.TrimSuffix(body, []byte("\r\n\r\n"))
		// in one of the archives; net/http refuses it
		body = bytes.ReplaceAll(body, []byte("Content-Length: -1\r\n"), nil)
		switch {
		case kind == "response" && strings.HasPrefix(media, "application/http"):
			header, _, _ := bytes.Cut(body, []byte("\r\n\r\n"))
			chunked := bytes.Contains(bytes.ToLower(header), []byte("transfer-encoding: chunked"))
			response, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(body)), nil)
			must(t, err)
			if response.StatusCode != 200 {
				continue
			}
			media = response.Header.Get("Content-Type")
			body = body[len(header)+4:]
			// if the body is not chunked after all, only the header says so
			if dechunked, err := io.ReadAll(response.Body); chunked && err == nil {
				body = dechunked
			}
		case kind != "conversion":
			continue
		}
		if (strings.HasPrefix(media, "text/html") || strings.HasPrefix(media, "text/plain")) &&
			len(body) > 0 {
			keys, contents = append(keys, message.Header.Get("Warc-Target-Uri")),
				append(contents, body)
		}
	}
	return types, keys, contents
}

// inputPath returns the path of a file in testdata or in the shared data.
func inputPath(t testing.TB, name string) string {
	t.Helper()
	if strings.HasPrefix(name, "testdata/") {
		return name
	}
	return testgen.Shared(t, name)
}

func TestArchives(t *testing.T) {
	for name, documents := range map[string]int{
		"testdata/sample.warc.gz": 13, "testdata/sample.wet.gz": 6,
		"warc/aut-example.warc.gz": 129, "warc/pywb-iana.warc.gz": 16, "warc/whirlwind.warc.gz": 1,
		"warc/whirlwind.warc.wet.gz": 1,
	} {
		t.Run(name, func(t *testing.T) {
			path := inputPath(t, name)
			r := newReader(t, Options{}, path)
			records, totals := readAll(t, r), r.Totals()
			types, keys, contents := expectDocuments(t, path)
			var all int64
			for kind, n := range types {
				if isNonDocument(kind) && totals.Skipped[kind] != n {
					t.Errorf("%d of %s, %d in the file", totals.Skipped[kind], kind, n)
				}
				all += n
			}
			if totals.Records != all || int(totals.Documents) != len(keys) ||
				len(keys) != documents {
				t.Errorf("want %d records and %d documents, got %+v", all, len(keys), totals)
			}
			i := 0
			for _, rec := range records {
				if rec.Skip != nil {
					continue
				}
				if i < len(keys) && (rec.Key != keys[i] || !bytes.Equal(rec.Content, contents[i])) {
					t.Errorf("document %d is %q of %d bytes, want %q of %d", i, rec.Key,
						len(rec.Content), keys[i], len(contents[i]))
				}
				i++
			}
		})
	}
}
