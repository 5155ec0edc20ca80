package testgen

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/neardup/neardup/fingerprint"
)

// naiveCommonSubsequence computes the length by dynamic programming.
func naiveCommonSubsequence(x, y []int) int {
	row := make([]int, len(y)+1)
	for _, a := range x {
		diagonal := 0
		for j, b := range y {
			above := row[j+1]
			if a == b {
				row[j+1] = diagonal + 1
			} else {
				row[j+1] = max(above, row[j])
			}
			diagonal = above
		}
	}
	return row[len(y)]
}

func TestCommonSubsequence(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	for range 3000 {
		x, y := make([]int, rng.IntN(200)), make([]int, rng.IntN(200))
		kinds := 1 + rng.IntN(30)
		for _, s := range [][]int{x, y} {
			for i := range s {
				s[i] = rng.IntN(kinds)
			}
		}
		places := make([][]int, kinds)
		for i, token := range y {
			places[token] = append(places[token], i)
		}
		if got, want := commonSubsequence(x, places, len(y)),
			naiveCommonSubsequence(x, y); got != want {
			t.Fatalf("%v and %v: %d, want %d", x, y, got, want)
		}
	}
}

// TestLabelledTexts checks the properties of the labelled texts: their lengths, near-duplicates,
// and pairs that are almost near-duplicates. The texts of a seed must not depend on their number.
func TestLabelledTexts(t *testing.T) {
	for name, make := range map[string]func(seed uint64, n int) []Text{
		"short":     func(seed uint64, n int) []Text { return ShortTexts(t, seed, n) },
		"reference": func(seed uint64, n int) []Text { return References(t, seed, 20*n) },
	} {
		texts := make(1, 6)
		positive, between, negative := 0, 0, 0
		for _, l := range Labels(texts, fingerprint.Tokens) {
			switch {
			case l.Similarity > 1:
				t.Errorf("%s: %s and %s are similar by %v", name, texts[l.A].ID,
					texts[l.B].ID, l.Similarity)
			case l.Similarity >= 0.9:
				positive++
			case l.Similarity >= 0.8:
				between++
			default:
				negative++
			}
		}
		if positive < 80 || between < 40 || negative < 80 {
			t.Errorf("%s: %d positive pairs, %d between, %d negative", name, positive,
				between, negative)
		}
		for _, text := range texts {
			tokens := len(fingerprint.Tokens(text.Text))
			if strings.ContainsAny(text.Text, "{}") || name == "short" && tokens > 250 ||
				name == "reference" && (tokens < 150 || tokens > 500) {
				t.Errorf("%s: %d tokens: %s", text.ID, tokens, text.Text)
			}
		}
		few := make(1, 2)
		for _, text := range few {
			if !slices.Contains(texts, text) {
				t.Errorf("%s: %s depends on how many are made", name, text.ID)
			}
		}
		if other := make(2, 2); slices.Equal(few, other) {
			t.Errorf("%s: two seeds give the same", name)
		}
	}
}
