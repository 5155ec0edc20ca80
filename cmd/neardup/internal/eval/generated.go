package eval

import (
	"github.com/neardup/neardup/fingerprint/page"
	"github.com/neardup/neardup/internal/sitegen"
)

// generatedPages is the number of distinct pages per generated host.
const generatedPages = 100

// Generate returns a crawl of generated pages of one kind with their labels.
func Generate(
	kind sitegen.Kind, seed uint64, keepTexts bool, signers []*page.Signer,
) (*Labelled, error) {
	var docs []*Document
	var pairs []Pair
	first := make(map[string]string) // the ID of the first fetch, by content
	for _, p := range sitegen.Crawl(kind, seed, generatedPages) {
		d := &Document{ID: "http://" + p.ID}
		d.sign(p.Text, keepTexts, signers)
		docs = append(docs, d)
		if id, fetched := first[p.Content]; fetched {
			pairs = append(pairs, Pair{1, id, d.ID})
		} else {
			first[p.Content] = d.ID
		}
	}
	return Label(docs, pairs)
}
