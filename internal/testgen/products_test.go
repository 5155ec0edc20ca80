package testgen

import (
	"bytes"
	"testing"

	"github.com/neardup/neardup/fingerprint"
	visible "github.com/neardup/neardup/fingerprint/page"
)

// The match rule of the default pipeline.
const (
	maxDistance = 6
	maxSum      = 16 // of the distances of fingerprint and Shingle
)

func defaultAnalyzer(t *testing.T) *fingerprint.Analyzer {
	t.Helper()
	a, err := fingerprint.NewAnalyzer(fingerprint.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func products(t *testing.T, seed uint64, n int) []Page {
	t.Helper()
	var pages []Page
	for p, err := range Products(seed, n) {
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, p)
	}
	if len(pages) != n {
		t.Fatalf("%d pages, want %d", len(pages), n)
	}
	return pages
}

// Pages of one template with other content are different pages: no two of them
// match. The distance of the unigram fingerprints alone is not enough for that,
// which the log shows.
func TestProductsAreDifferentPages(t *testing.T) {
	signer, err := visible.NewSigner(visible.Options{}, fingerprint.Options{})
	if err != nil {
		t.Fatal(err)
	}
	pages := products(t, 1, 2000)
	var sigs []fingerprint.Signature
	paths := make(map[string]bool)
	for _, p := range pages {
		sig, err := signer.Sign("text/html; charset=utf-8", p.HTML)
		if err != nil {
			t.Fatal(err)
		}
		if sig.Tokens < 250 {
			t.Errorf("%s: %d words, want several hundred", p.Path, sig.Tokens)
		}
		if paths[p.Path] {
			t.Errorf("%s: two pages have this path", p.Path)
		}
		paths[p.Path] = true
		sigs = append(sigs, sig)
	}
	near := 0
	for i := range sigs {
		for j := range i {
			d := sigs[i].Fingerprint.Distance(sigs[j].Fingerprint)
			if d > maxDistance {
				continue
			}
			near++
			if s := sigs[i].Shingle.Distance(sigs[j].Shingle); d+s <= maxSum {
				t.Errorf("%s matches %s, distances %d and %d", pages[i].Path, pages[j].Path, d, s)
			}
		}
	}
	t.Logf("%d of %d pairs are within %d bits, none of them a match", near, len(sigs)*(len(sigs)-1)/2, maxDistance)
}

func TestProductsAreStable(t *testing.T) {
	few, many := products(t, 7, 5), products(t, 7, 50)
	for i, p := range few {
		if p.Path != many[i].Path || !bytes.Equal(p.HTML, many[i].HTML) {
			t.Errorf("page %d depends on how many are made", i)
		}
	}
	if bytes.Equal(few[0].HTML, products(t, 8, 1)[0].HTML) {
		t.Error("two seeds give the same first page")
	}
}
