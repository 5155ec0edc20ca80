package fingerprint

import (
	"math/rand/v2"
	"slices"
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
