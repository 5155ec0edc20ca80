package index_test

import (
	"testing"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/sitegen"
	"github.com/neardup/neardup/internal/testing/testenv"
)

// TestGeneratedTemplates crawls generated sites with short pages of one template, with and without
// Options.SiteTexts. By default, few distinct pages must be dropped, and hardly fewer
// near-duplicates be found.
func TestGeneratedTemplates(t *testing.T) {
	a, err := fingerprint.NewAnalyzer(fingerprint.Options{})
	must(t, err)
	pages := 30
	if testenv.Long() {
		pages = 150
	}
	for _, kind := range sitegen.Kinds {
		crawl := sitegen.Crawl(kind, 1, pages)
		docs := make([]index.Document, len(crawl))
		distinct := make(map[string]bool)
		for i, p := range crawl {
			s := a.Text(p.Text)
			docs[i] = index.Document{Key: "http://" + p.ID, Fingerprint: s.Fingerprint,
				Shingles: s.Shingles, Digest: s.Digest, Tokens: s.Tokens}
			distinct[p.Content] = true
		}
		var dropped, found, again [2]int // without the option, and by default
		for n, texts := range []int{-1, 0} {
			x := index.OpenMem(t, index.Options{MaxDistance: 6, SiteTexts: texts})
			verdicts, err := x.CheckAndAddBatch(t.Context(), docs)
			must(t, err)
			stored := make(map[string]bool)
			for i, v := range verdicts {
				content := crawl[i].Content
				switch {
				case v.Status == index.New:
					if stored[content] {
						again[n]++
					}
					stored[content] = true
				case stored[content]:
					again[n]++
					found[n]++
				}
			}
			dropped[n] = len(distinct) - len(stored)
		}
		recall := func(n int) float64 { return float64(found[n]) / float64(max(again[n], 1)) }
		t.Logf("%s: %d distinct pages, %d dropped and %.3f of the near-duplicates found without "+
			"the option; %d and %.3f by default", kind, len(distinct), dropped[0], recall(0),
			dropped[1], recall(1))
		if dropped[1] > max(len(distinct)/50, dropped[0]/20) || recall(1) < recall(0)-0.02 {
			t.Errorf("%s: too many are dropped, or too few are found", kind)
		}
	}
}
