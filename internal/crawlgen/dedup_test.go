package crawlgen

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/neardup/neardup/fingerprint"
	visible "github.com/neardup/neardup/fingerprint/page"
)

// The match rule of the default pipeline.
const (
	maxDistance = 6
	maxSum      = 16 // of the distances of fingerprint and Shingle
)

// pageTexts returns the text of each document by its key.
func pageTexts(t *testing.T, crawl *Crawl) map[string]string {
	t.Helper()
	texts := make(map[string]string)
	html := func(key string, body []byte, contentType string) {
		p, err := visible.Extract(body, contentType, visible.Options{})
		if err != nil {
			t.Fatalf("%s: %v", key, err)
		}
		texts[key] = p.Text
	}
	for _, f := range crawl.Files {
		switch {
		case f.Path == archivePath:
			for _, r := range readArchive(t, f.Data) {
				uri := r.header.Get("WARC-Target-URI")
				switch r.header.Get("WARC-Type") {
				case "response":
					resp, body, err := r.body()
					if err != nil {
						t.Fatalf("%s: %v", uri, err)
					}
					html(uri, body, resp.Header.Get("Content-Type"))
				case "resource", "conversion":
					texts[uri] = string(r.content)
				}
			}
		case f.Path == notesPath:
			for line := range strings.Lines(string(f.Data)) {
				var note struct{ ID, Text string }
				if err := json.Unmarshal([]byte(line), &note); err != nil {
					t.Fatalf("%s: %v", f.Path, err)
				}
				texts[note.ID] = note.Text
			}
		case strings.HasSuffix(f.Path, ".txt"):
			texts[f.Path] = visible.Plain(f.Data, "").Text
		default:
			html(f.Path, f.Data, "")
		}
	}
	return texts
}

func defaultAnalyzer(t *testing.T) *fingerprint.Analyzer {
	t.Helper()
	a, err := fingerprint.NewAnalyzer(fingerprint.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// kept is a document that was found to be new.
type kept struct {
	Document
	fingerprint.Signature
}

// nearest returns the kept document that matches, the nearest first and of
// equally near ones the earliest.
func nearest(all []kept, sig fingerprint.Signature) (kept, int) {
	best, at := kept{}, maxDistance+1
	for _, k := range all {
		d := k.Fingerprint.Distance(sig.Fingerprint)
		if d < at && d+k.Shingle.Distance(sig.Shingle) <= maxSum {
			best, at = k, d
		}
	}
	return best, at
}

// Deduplicating the crawl in the order of a walk must come out as the
// expectations say, the known misses and mistakes included.
func TestDefaultPipelineOnTheCrawl(t *testing.T) {
	crawl := generate(t)
	texts := pageTexts(t, crawl)
	analyzer := defaultAnalyzer(t)
	var all []kept
	outcomes := make(map[Expect]int)
	for _, d := range crawl.Documents {
		if d.Expect == NoPage {
			continue
		}
		sig := analyzer.Text(texts[d.Key])
		if sig.Features == 0 {
			t.Errorf("%s: no text", d.Key)
		}
		of, at := nearest(all, sig)
		if at > maxDistance {
			all = append(all, kept{d, sig})
		}
		got := New
		switch {
		case at <= maxDistance && of.Group == d.Group:
			got = Duplicate
		case at <= maxDistance:
			got = Confused
		case d.Expect == Missed:
			got = Missed
		}
		outcomes[got]++
		if got != d.Expect {
			t.Errorf("%s (%s): %s, expected %s%s", d.Key, d.Note, got, d.Expect, describe(all, d, sig))
		}
	}
	t.Logf("outcomes: %v", outcomes)
}

// describe lists the distances to the documents of the same group.
func describe(all []kept, d Document, sig fingerprint.Signature) string {
	var b strings.Builder
	for _, k := range all {
		if k.Group == d.Group && k.Key != d.Key {
			fmt.Fprintf(&b, "; distance %d and %d from %s",
				k.Fingerprint.Distance(sig.Fingerprint), k.Shingle.Distance(sig.Shingle), k.Key)
		}
	}
	return b.String()
}
