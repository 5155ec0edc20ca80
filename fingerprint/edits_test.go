package fingerprint

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/neardup/neardup/internal/testing/testenv"
)

// editShares counts the texts that still match themselves, by the rule of dedup, after edits.
type editShares struct{ total, first, three, six int }

// near is the rule of dedup for long texts.
func near(x, y Signature) bool {
	distance := x.Fingerprint.Distance(y.Fingerprint)
	return distance <= 6 && distance+x.Shingles.Distance(y.Shingles) <= 36
}

// add takes note of a text and its edited form, by each analyzer.
func (e *editShares) add(analyzers []*Analyzer, text, changed string) {
	for _, a := range analyzers {
		x, y := a.Text(text), a.Text(changed)
		distance := x.Fingerprint.Distance(y.Fingerprint)
		e.total++
		if distance > 6 {
			continue
		}
		e.first++
		if !near(x, y) {
			continue
		}
		e.six++
		if distance <= 3 {
			e.three++
		}
	}
}

func (e *editShares) of(n int) float64 { return float64(n) / float64(e.total) }

// seeded are analyzers of so many seeds, of one with -short.
func seeded(t *testing.T, n int) (analyzers []*Analyzer) {
	for i := range n {
		if i == 0 || !testing.Short() {
			analyzers = append(analyzers, newAnalyzer(t, Options{Seed: uint64(i)}))
		}
	}
	return analyzers
}

// TestDeclarationsWithManyEdits: what part of the texts of one script matches itself after one
// token in so many was replaced by another of the text. Its log is the table of docs/quality.md.
func TestDeclarationsWithManyEdits(t *testing.T) {
	const seed = 29
	texts := testenv.Number(1, 6, 6, 6)
	keys := []string{"eng", "fra", "rus", "ell_monotonic", "arb", "heb", "hin", "kor", "jpn", "cmn_hans", "cmn_hant"}
	if testing.Short() {
		keys = keys[:1]
	}
	analyzers := seeded(t, 5)
	for _, d := range declarations(t) {
		if !slices.Contains(keys, d.key) {
			continue
		}
		for _, every := range []int{200, 100, 50, 25} {
			rng := rand.New(rand.NewPCG(seed, uint64(every)))
			edits := max(1, analyzers[0].Text(d.text).Tokens/every)
			var shares editShares
			for range texts {
				shares.add(analyzers, d.text, editWords(rng, d.text, edits))
			}
			six := shares.of(shares.six)
			t.Logf("%-14s one token in %3d: %.2f at k=3, %.2f at k=6", d.key, every, shares.of(shares.three), six)
			if every >= 100 && six < 0.8 {
				t.Errorf("%s: %.2f of texts with one token in %d changed match", d.key, six, every)
			}
		}
	}
}

// TestScatteredEdits: what part of texts of 400 words matches itself after one word in so many was
// replaced by another of the text.
func TestScatteredEdits(t *testing.T) {
	const seed, texts, words = 31, 40, 400
	analyzers := seeded(t, 5)
	for _, every := range []int{100, 50, 40, 25, 20} {
		rng := rand.New(rand.NewPCG(seed, uint64(every)))
		var shares editShares
		for _, d := range declarations(t) {
			if !slices.Contains([]string{"eng", "fra", "rus", "ell_monotonic", "arb"}, d.key) {
				continue
			}
			all := strings.Fields(d.text)
			for range texts {
				at := rng.IntN(len(all) - words)
				text := strings.Join(all[at:at+words], " ")
				shares.add(analyzers, text, editWords(rng, text, words/every))
			}
		}
		found := shares.of(shares.six)
		t.Logf("one word in %3d: %.2f match, %.2f by the first fingerprint alone", every, found, shares.of(shares.first))
		if every >= 50 && found < 0.85 {
			t.Errorf("%.2f of texts with one word in %d changed match", found, every)
		}
	}
}
