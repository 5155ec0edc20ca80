package fingerprint

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"golang.org/x/text/unicode/norm"
	"golang.org/x/text/width"
)

// TestDigestOfChangedTexts tests that a change of a word, or of the order or number of words,
// changes the Digest of a text of any length.
func TestDigestOfChangedTexts(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, o := range []Options{{}, {Method: MethodSimhash}, {Seed: 3}} {
		a := newAnalyzer(t, o)
		for _, n := range []int{1, 2, 3, 4, 5, 20, 511, 512, 513, 1025, 5000} {
			words := make([]string, n)
			for i := range words {
				words[i] = strings.Repeat("w", rng.IntN(20)) + fmt.Sprint(rng.IntN(n))
			}
			digest := a.Text(strings.Join(words, " ")).Digest
			for _, i := range []int{0, n - 1, rng.IntN(n)} {
				for _, other := range [][]string{
					slices.Insert(slices.Clone(words), i, "w"),
					slices.Insert(slices.Clone(words), i, words[i]),
					slices.Delete(slices.Clone(words), i, i+1),
					slices.Replace(slices.Clone(words), i, i+1, words[i]+"x"),
					slices.Concat(words[i:], words[:i]),
				} {
					if a.Text(strings.Join(other, " ")).Digest == digest &&
						!slices.Equal(other, words) {
						t.Errorf("%s: equal digests of %.100q and %.100q", a.Name(), words, other)
					}
				}
			}
		}
	}
}

// Texts with equal tokens have equal Signatures, and a Digest that does not depend on the options.
func TestDigestOfEqualTexts(t *testing.T) {
	text := strings.Repeat("Caf\u00e9 한국어 \u1ec7 \u05d0\u05bc ガギ "+
		"漢字 word ", 300)
	texts := map[string]string{
		"NFD": norm.NFD.String(text), "NFKD": norm.NFKD.String(text),
		"full width": width.Widen.String(text), "upper case": strings.ToUpper(text),
		"white space": strings.ReplaceAll(text, " ", "\t\u3000\n"),
		"punctuation": strings.ReplaceAll(text, " ", " \u2014 "),
	}
	digest := newAnalyzer(t, Options{}).Text(text).Digest
	for _, o := range []Options{{}, {Seed: 9}, {Method: MethodSimhash},
		{Method: MethodSimhash, Window: 3}} {
		a := newAnalyzer(t, o)
		want := a.Text(text)
		for what, text := range texts {
			if got := a.Text(text); got != want || got.Digest != digest {
				t.Errorf("%s, %s: %+v, want %+v with digest %v", a.Name(), what, got, want, digest)
			}
		}
	}
}
