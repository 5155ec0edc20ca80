package archive

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/neardup/neardup"
	"github.com/neardup/neardup/cmd/neardup/internal/corpus"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/check"
	"github.com/neardup/neardup/internal/testing/testenv"
	"github.com/neardup/neardup/internal/testing/testgen"
)

var must = testenv.Must

func text(i int) string { return fmt.Sprintf("the ferry number %d leaves the harbour at nine", i) }

func warc(i int) string {
	message := "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>" + text(i)
	return fmt.Sprintf("WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: "+
		"http://a.example/%d\r\nContent-Type: application/http; "+
		"msgtype=response\r\nContent-Length: %d\r\n\r\n%s\r\n\r\n", i, len(message), message)
}

func line(i int) string {
	return fmt.Sprintf(`{"url":"http://a.example/%d","text":%q}`+"\n", i, text(i))
}

func document(i int) *index.Document {
	d, _ := check.Analyze(check.DefaultSigner(),
		neardup.Page{URL: fmt.Sprintf("http://a.example/%d", i), Body: []byte(text(i))})
	return &d
}

// Words finds the stored text of each document in each kind of file.
func TestWords(t *testing.T) {
	ctx := t.Context()
	other := strings.ReplaceAll(line(1), "ferry", "train")
	for name, content := range map[string]string{
		"a.warc":             warc(0) + warc(1) + warc(2),
		"b.warc.gz":          testgen.Gzip(warc(0)) + testgen.Gzip(warc(1)) + testgen.Gzip(warc(2)),
		"c.jsonl":            line(0) + other + "\n  " + line(1) + "no object\n" + line(2),
		"later version last": line(0) + line(1) + other + line(2),
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), name)
			must(t, os.WriteFile(file, []byte(content), 0o666))
			a, err := Open(ctx, []string{file}, check.DefaultSigner(), hidden)
			must(t, err)
			defer a.Close()
			for i := range 3 {
				if words, err := a.Words(ctx, document(i)); err != nil ||
					strings.Join(words, " ") != text(i) {
					t.Errorf("%d: %q, %v", i, words, err)
				}
			}
			changed := document(1)
			changed.Fingerprint++
			for _, d := range []*index.Document{document(3), changed} {
				if words, err := a.Words(ctx, d); words != nil || err != nil {
					t.Errorf("%s: %q, %v", d.Key, words, err)
				}
			}
			if a.Documents() < 3 {
				t.Errorf("%d documents", a.Documents())
			}
			must(t, os.WriteFile(file, []byte("{}"), 0o666))
			if words, err := a.Words(ctx, document(2)); words != nil || err != nil {
				t.Errorf("of a file that was overwritten: %q, %v", words, err)
			}
		})
	}
}

// Open returns an error for a file whose records cannot be read by position.
func TestNotSeekable(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"lines.jsonl.gz": testgen.Gzip(line(0) + line(1)),
		"whole.warc.gz": testgen.Gzip(warc(0) + warc(1)), "page.html": "<p>a page"} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o666))
	}
	for name, want := range map[string]error{"lines.jsonl.gz": ErrNotSeekable,
		"whole.warc.gz": ErrNotSeekable, "": ErrNotSeekable, "page.html": corpus.ErrNoOriginals} {
		_, err := Open(t.Context(), []string{filepath.Join(dir, name)}, check.DefaultSigner(),
			hidden)
		if !errors.Is(err, want) || !strings.Contains(err.Error(), name) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// hidden shows no progress.
func hidden(*corpus.Reader) func() { return func() {} }
