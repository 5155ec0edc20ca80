package corpus

import (
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/unicode"
)

// crawlFilesOf returns names and contents of the files of a crawl with the pages u and v in a
// folder.
func crawlFilesOf(folder string) []string {
	return []string{
		folder + "archive/rec-1.warc.gz", gzipped(response("u", page)) +
			gzipped(record("resource", "urn:text:https://u/", "text/plain", "A page.")),
		folder + "archive/rec-2.warc.gz", gzipped(response("v", page)),
		folder + "datapackage.json",
		`{"profile":"data-package","resources":[],"text":"about the crawl"}`,
		folder + "datapackage-digest.json", `{"path":"datapackage.json"}`,
		folder + "indexes/index.cdxj", "com,example)/ 20260101000000 {\"url\":\"u\"}\n",
		folder + "logs/crawl.log", `{"logLevel":"info","text":"it went well"}` + "\n",
		folder + "pages/extraPages.jsonl", `{"url":"w","text":"A page."}` + "\n",
		folder + "pages/pages.jsonl", `{"format":"json-pages-1.0","id":"pages"}` + "\n" +
			`{"url":"u","text":"A page."}` + "\n",
	}
}

// Only the web archives of a crawl have documents: in a folder, in one of several folders, in a
// WACZ file, in a WACZ file with two files of one name, and in one that was unpacked and packed
// again.
func TestCrawlFolders(t *testing.T) {
	files := map[string]string{
		"x.wacz": zipped(crawlFilesOf("")...), "again.wacz": zipped(crawlFilesOf("c/")...),
		"again.zip": zipped(append(crawlFilesOf("c/"), "__MACOSX/c/._archive", "x")...),
	}
	for _, folder := range []string{"", "collections/c/", "collections/d/"} {
		of := crawlFilesOf(folder)
		for i := 0; i < len(of); i += 2 {
			files[filepath.Join("in", filepath.FromSlash(of[i]))] = of[i+1]
		}
	}
	files["twice.wacz"] = zipped(append(crawlFilesOf(""), "archive/.x", "", "archive/.x", "")...)
	files["in/c.wacz"] = zipped(crawlFilesOf("")...)
	root := writeFiles(t, files)
	for input, folders := range map[string]int{"x.wacz": 1, "twice.wacz": 1, "again.wacz": 1,
		"again.zip": 1, "in": 1, "in/collections": 2, "in/collections/c": 1} {
		r := newReader(t, Options{}, filepath.Join(root, input))
		var documents []string
		for _, rec := range readAll(t, r) {
			if rec.Skip == nil {
				documents = append(documents, rec.Key)
			}
		}
		totals := r.Totals()
		if want := strings.Repeat(" u v", folders)[1:]; strings.Join(documents, " ") != want ||
			totals.Skipped["not an archive of the WACZ"] < int64(folders) {
			t.Errorf("%s: documents %v, want %s; %+v", input, documents, want, totals)
		}
	}
}

// An input in UTF-16 has the records of the same input in UTF-8. A short one needs a byte order mark.
func TestUTF16(t *testing.T) {
	lines := strings.Repeat(`{"url":"u","text":"words, слова, 𐍈"}`+"\r\n", 3000)
	array := "[" + strings.ReplaceAll(strings.TrimSpace(lines), "\r\n", ",\n") + "]"
	little, big := unicode.LittleEndian, unicode.BigEndian
	marked := []encoding.Encoding{unicode.UTF16(little, unicode.UseBOM),
		unicode.UTF16(big, unicode.UseBOM)}
	all := append(marked, unicode.UTF16(little, unicode.IgnoreBOM),
		unicode.UTF16(big, unicode.IgnoreBOM))
	for name, c := range map[string]struct {
		format    Format
		input     string
		encodings []encoding.Encoding
	}{
		"JSON lines": {JSONL, lines, all}, "JSON lines, detected": {Detect, lines, all},
		"JSON": {Detect, array, all}, "text": {Detect, "some words, слова", all},
		"a list": {Detect, "0123456789abcdef\tключ\r\n00000000000000ff\r\n", all},
		"HTML":   {Detect, "<!doctype html><p>some words, слова", all},
		"short":  {TextFile, "я", marked},
	} {
		want := readString(t, Options{Format: c.format}, c.input)
		for _, utf16 := range c.encodings {
			encoded, err := utf16.NewEncoder().String(c.input)
			must(t, err)
			for _, input := range []string{encoded, gzipped(encoded)} {
				got := readString(t, Options{Format: c.format}, input)
				if brief(got) != brief(want) || want[0].Skip != nil {
					t.Errorf("%s, %v: got\n%.300swant\n%.300s", name, utf16, brief(got), brief(want))
				}
				if got[0].Kind != Fingerprint &&
					!strings.HasSuffix(got[0].ContentType, "charset=utf-8") {
					t.Errorf("%s: type %q", name, got[0].ContentType)
				}
			}
		}
	}
}
