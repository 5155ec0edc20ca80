package fingerprint

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestDeclarationsWithManyEdits: what part of the texts of one script matches itself by the
// rule of dedup after one token in so many was replaced by another of the text. Its log is
// the table of docs/quality.md.
func TestDeclarationsWithManyEdits(t *testing.T) {
	const seed, texts = 29, 6
	keys := []string{"eng", "fra", "rus", "ell_monotonic", "arb", "heb", "hin", "kor", "jpn", "cmn_hans", "cmn_hant"}
	analyzers := make([]*Analyzer, 5)
	for i := range analyzers {
		analyzers[i] = newAnalyzer(t, Options{Seed: uint64(i)})
	}
	if testing.Short() {
		keys, analyzers = keys[:1], analyzers[:1]
	}
	for _, d := range declarations(t) {
		if !slices.Contains(keys, d.key) {
			continue
		}
		for _, every := range []int{200, 100, 50, 25} {
			rng := rand.New(rand.NewPCG(seed, uint64(every)))
			total, atThree, atSix := 0, 0, 0
			for range texts {
				changed := d.text
				for range max(1, analyzers[0].Text(d.text).Tokens/every) {
					changed = editWord(rng, changed)
				}
				for _, a := range analyzers {
					x, y := a.Text(d.text), a.Text(changed)
					distance := x.Fingerprint.Distance(y.Fingerprint)
					total++
					if distance+x.Shingle.Distance(y.Shingle) > 13 {
						continue
					}
					if distance <= 3 {
						atThree++
					}
					if distance <= 6 {
						atSix++
					}
				}
			}
			share := func(n int) float64 { return float64(n) / float64(total) }
			t.Logf("%-14s one token in %3d: %.2f at k=3, %.2f at k=6", d.key, every, share(atThree), share(atSix))
			if every >= 100 && share(atSix) < 0.8 {
				t.Errorf("%s: %.2f of texts with one token in %d changed match", d.key, share(atSix), every)
			}
		}
	}
}

// TestScatteredEdits: what part of texts of 400 words matches itself by the rule of dedup after one
// word in so many was replaced by another of the text.
func TestScatteredEdits(t *testing.T) {
	const seed, texts, words = 31, 40, 400
	analyzers := make([]*Analyzer, 5)
	for i := range analyzers {
		analyzers[i] = newAnalyzer(t, Options{Seed: uint64(i)})
	}
	if testing.Short() {
		analyzers = analyzers[:1]
	}
	for _, every := range []int{100, 50, 40, 25, 20} {
		rng := rand.New(rand.NewPCG(seed, uint64(every)))
		var total, byFirst, found int
		for _, d := range declarations(t) {
			if !slices.Contains([]string{"eng", "fra", "rus", "ell_monotonic", "arb"}, d.key) {
				continue
			}
			all := strings.Fields(d.text)
			for range texts {
				at := rng.IntN(len(all) - words)
				text := strings.Join(all[at:at+words], " ")
				changed := text
				for range words / every {
					changed = editWord(rng, changed)
				}
				for _, a := range analyzers {
					x, y := a.Text(text), a.Text(changed)
					distance := x.Fingerprint.Distance(y.Fingerprint)
					if total++; distance <= 6 {
						byFirst++
						if distance+x.Shingle.Distance(y.Shingle) <= 13 {
							found++
						}
					}
				}
			}
		}
		share := func(n int) float64 { return float64(n) / float64(total) }
		t.Logf("one word in %3d: %.2f match, %.2f by the first fingerprint alone", every, share(found), share(byFirst))
		if every >= 50 && share(found) < 0.85 {
			t.Errorf("%.2f of texts with one word in %d changed match", share(found), every)
		}
	}
}
