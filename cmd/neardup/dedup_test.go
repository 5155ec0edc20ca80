package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/neardup/neardup/internal/match"
	"github.com/neardup/neardup/internal/testing/checktest"
)

// TestReadyFingerprints: one whose key is too long is a skip of its own, and that they are compared
// by less than pages is told, once.
func TestReadyFingerprints(t *testing.T) {
	list := writeFile(t, "list.jsonl", `{"key":"a","fingerprint":"00000000000000ff"}
{"key":"`+strings.Repeat("x", match.MaxKeyBytes+1)+`","fingerprint":"00000000ffff00ff"}
{"key":"b","fingerprint":"ff000000000000ff"}
`)
	for _, command := range []string{"dedup", "add"} {
		dir := filepath.Join(t.TempDir(), "ix")
		code, _, errs := runHere("", command, "-index", dir, list)
		if code != exitDone || strings.Count(errs, "compared by k = 6 alone; -format fingerprints") != 1 {
			t.Errorf("%s: %d, %s", command, code, errs)
		}
		if stored := exported(t, dir); len(stored) != 2 {
			t.Errorf("%s: %q are stored", command, stored)
		}
		code, _, errs = runHere("00000000000000ff\ta\n", command, "-index", dir+"2", "-format", "fingerprints", "-")
		if code != exitDone || strings.Contains(errs, "alone") {
			t.Errorf("%s: %d, %s", command, code, errs)
		}
	}
	long := writeFile(t, "list", "00000000000000ff\ta\n00000000000000ff\t"+strings.Repeat("x", match.MaxKeyBytes+1)+"\n")
	code, _, errs := runHere("", "import", "-index", filepath.Join(t.TempDir(), "ix"), long)
	if code != exitFailed || !strings.Contains(errs, long+" line 2: ") {
		t.Errorf("import: %d, %s", code, errs)
	}
}

// Where the temporary index has no place, the error says what to do.
func TestNoPlaceForTheTemporaryIndex(t *testing.T) {
	nowhere := filepath.Join(t.TempDir(), "nowhere")
	t.Setenv("TMPDIR", nowhere)
	t.Setenv("TMP", nowhere)
	code, _, errs := runHere("", "dedup", writeFile(t, "page.txt", "some words"))
	if code != exitFailed || !strings.Contains(errs, nowhere) || !strings.Contains(errs, "give -index DIR, or another TMPDIR") {
		t.Errorf("%d, %s", code, errs)
	}
}

// A recrawled page with one word changed is emitted, and never replaced by a revisit record. Only a
// page with an equal text is.
func TestEmitAndRevisitsOfChangedPages(t *testing.T) {
	archive := func(name string, texts map[string]string) string {
		var b strings.Builder
		for _, url := range slices.Sorted(maps.Keys(texts)) {
			block := "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<body>" + texts[url]
			fmt.Fprintf(&b, "WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: %s\r\nContent-Type: application/http; msgtype=response\r\nContent-Length: %d\r\n\r\n%s\r\n\r\n", url, len(block), block)
		}
		return writeFile(t, name, b.String())
	}
	const pages = 40
	first, second := make(map[string]string), make(map[string]string)
	url := func(i int) string { return fmt.Sprintf("http://a.example/%02d", i) }
	for i := range pages {
		text := checktest.Text(fmt.Sprintf("product%dx", i), 700)
		first[url(i)] = text + " price 10"
		second[url(i)] = text + " price 11"
	}
	second[url(0)] = "<p>" + strings.ToUpper(first[url(0)])                 // unchanged
	second["http://b.example/copy"] = first[url(0)]                         // a duplicate with an equal text
	second["http://b.example/near"] = "one word more than " + first[url(0)] // a duplicate with another text
	dir := filepath.Join(t.TempDir(), "ix")
	if code, _, errs := runHere("", "dedup", "-index", dir, archive("first.warc", first)); code != exitDone {
		t.Fatal(code, errs)
	}
	out := filepath.Join(t.TempDir(), "out.warc")
	code, verdicts, errs := runHere("", "dedup", "-index", dir, "-emit", "new", "-revisits", "-o", out, archive("second.warc", second))
	if code != exitDone || strings.Count(verdicts, `"verdict":"changed"`) != pages-1 || strings.Count(verdicts, `"verdict":"unchanged"`) != 1 || strings.Count(verdicts, `"verdict":"duplicate"`) != 2 {
		t.Fatalf("%d, %s\n%s", code, errs, verdicts)
	}
	written, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	records := strings.Split(string(written), "WARC/1.")[1:]
	if n := strings.Count(string(written), "WARC-Type: revisit"); n != 2 || len(records) != pages+1 {
		t.Errorf("%d records, %d of them revisits; want %d and 2", len(records), n, pages+1)
	}
	for _, r := range records {
		isRevisit := strings.Contains(r, "WARC-Type: revisit")
		if equal := strings.Contains(r, "URI: "+url(0)+"\r") || strings.Contains(r, "URI: http://b.example/copy\r"); equal != isRevisit {
			t.Errorf("revisit %v: %.300s", isRevisit, r)
		}
	}
}

// The line about a duplicate says if the earlier version of its key was removed.
func TestRemovedInLines(t *testing.T) {
	pages := writeFile(t, "pages.jsonl", `{"url":"a","text":"the first page has these words in it"}
{"url":"b","text":"something else altogether is on the second page"}
{"url":"b","text":"the first page has these words in it"}
{"url":"b","text":"the first page has these words in it"}
`)
	code, out, errs := runHere("", "dedup", pages)
	if lines := strings.Split(out, "\n"); code != exitDone || len(lines) != 5 || !strings.HasSuffix(lines[2], `"distance":0,"id":1},"removed":true}`) || strings.Count(out, "removed") != 1 {
		t.Errorf("%d, %s\n%s", code, errs, out)
	}
}
