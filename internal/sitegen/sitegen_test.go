package sitegen

import (
	"slices"
	"testing"

	"github.com/neardup/neardup/fingerprint"
)

// TestCrawl tests that pages have the lengths of their kind and that two fetches of a page
// differ. The fetches and the distinct pages must not depend on the number of pages.
func TestCrawl(t *testing.T) {
	lengths := map[Kind][2]int{Reference: {25, 260}, Product: {290, 480}, CheatSheet: {14, 90},
		Notice: {20, 110}}
	for _, kind := range Kinds {
		crawl, longer := Crawl(kind, 1, 3), Crawl(kind, 1, 5)
		if n := len(crawl); n != len(Scripts)*hostsPerScript*3*2 {
			t.Errorf("%s: %d pages", kind, n)
		}
		contents, texts := make(map[string]int), make(map[string]bool)
		for _, p := range crawl {
			contents[p.Content]++
			texts[p.Text] = true
			n := len(fingerprint.Tokens(p.Text)) // each ideograph is a token
			if n < lengths[kind][0] || n > lengths[kind][1] {
				t.Errorf("%s: %d tokens: %s", p.ID, n, p.Text)
			}
			if !slices.Contains(longer, p) {
				t.Errorf("%s depends on the number of pages", p.ID)
			}
		}
		if len(texts) != len(crawl) || len(contents) != len(crawl)/2 {
			t.Errorf("%s: %d texts and %d contents of %d pages", kind, len(texts),
				len(contents), len(crawl))
		}
		if !slices.Equal(crawl, Crawl(kind, 1, 3)) || slices.Equal(crawl, Crawl(kind, 2, 3)) {
			t.Errorf("%s: the pages do not depend on the seed alone", kind)
		}
	}
}
