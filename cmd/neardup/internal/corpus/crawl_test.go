package corpus

import (
	"encoding/binary"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf16"
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
	other := writeFiles(t, map[string]string{"archive/a.warc": response("u", page),
		"pages/b.html": page})
	if records := readFiles(t, Options{}, other); len(records) != 2 || records[1].Skip != nil {
		t.Errorf("another folder: %s", brief(records))
	}
}

// Code and data in the mirror of a site are not documents.
func TestMirroredFolder(t *testing.T) {
	folder := writeFiles(t, map[string]string{
		"app.js": "words of code", "app.js.map": `{"version":3,"sources":["a"],"text":"words"}`,
		"style.css": "words", "style.css?v=3": "words", "style.css@v=4": "words",
		"logo.svg":             "<svg><text>words</text></svg>",
		"feed.xml":             "<?xml version='1.0'?><rss><title>words</title></rss>",
		"feed":                 "<rss><title>words</title></rss>",
		"manifest.webmanifest": `{"name":"words"}`, "index.html": page, "index.html?page=2": page,
		"about.js": "<!doctype html>" + page, "robots.txt": "User-agent: *",
	})
	var documents []string
	for _, rec := range readFiles(t, Options{}, folder) {
		if rec.Skip == nil {
			documents = append(documents, filepath.Base(rec.Key))
		} else if !strings.HasPrefix(rec.Skip.Reason, "not text: ") || rec.Skip.Broken {
			t.Errorf("%s: %v", rec.Key, rec.Skip)
		}
	}
	if got, want := fmt.Sprint(documents),
		"[about.js index.html index.html?page=2 robots.txt]"; got != want {
		t.Errorf("documents %s, want %s", got, want)
	}
}

// An input in UTF-16 has the records of the same input in UTF-8.
func TestUTF16(t *testing.T) {
	lines := strings.Repeat(`{"url":"u","text":"words, слова, 𐍈"}`+"\r\n", 3000)
	for name, c := range map[string]struct {
		format Format
		input  string
	}{
		"JSON lines": {JSONL, lines}, "JSON lines, detected": {Detect, lines},
		"JSON":   {Detect, "[" + strings.ReplaceAll(strings.TrimSpace(lines), "\r\n", ",\n") + "]"},
		"a list": {Detect, "0123456789abcdef\tключ\r\n00000000000000ff\r\n"},
		"text":   {Detect, "some words, слова"}, "HTML": {Detect,
			"<!doctype html><p>some words, слова"},
		"short text": {TextFile, "я"},
	} {
		want := readString(t, Options{Format: c.format}, c.input)
		for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
			for _, mark := range []string{"\ufeff", ""} {
				var encoded []byte
				for _, unit := range utf16.Encode([]rune(mark + c.input)) {
					encoded = order.AppendUint16(encoded, unit)
				}
				if mark == "" && len(c.input) < 10 {
					continue // too short to be recognized without a mark
				}
				for _, input := range []string{string(encoded), gzipped(string(encoded))} {
					got := readString(t, Options{Format: c.format}, input)
					if brief(got) != brief(want) || len(want) == 0 || want[0].Skip != nil {
						t.Errorf("%s, %v, mark %q: got\n%.300swant\n%.300s", name, order, mark,
							brief(got), brief(want))
					}
					if got[0].Kind != Fingerprint &&
						!strings.HasSuffix(got[0].ContentType, "charset=utf-8") {
						t.Errorf("%s: type %q", name, got[0].ContentType)
					}
				}
			}
		}
	}
	words := "\xff\xfe345678"
	folder := writeFiles(t, map[string]string{"x.u64le": words, "y.u64le.gz": gzipped(words)})
	for _, rec := range readFiles(t, Options{}, folder) {
		if rec.Fingerprint != 0x383736353433feff {
			t.Errorf("%s: %v, %v", rec.Source, rec.Fingerprint, rec.Skip)
		}
	}
}
