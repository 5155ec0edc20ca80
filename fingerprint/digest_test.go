package fingerprint

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"golang.org/x/text/unicode/norm"
	"golang.org/x/text/width"
)

// A change of any word, or of the order or number of words, changes the Digest of a text of any
// length.
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
				swapped, j := slices.Clone(words), rng.IntN(n)
				swapped[i], swapped[j] = swapped[j], swapped[i]
				for what, other := range map[string][]string{
					"a word added":      slices.Insert(slices.Clone(words), i, "w"),
					"a word doubled":    slices.Insert(slices.Clone(words), i, words[i]),
					"a word removed":    slices.Delete(slices.Clone(words), i, i+1),
					"two words swapped": swapped,
					"a letter added":    slices.Replace(slices.Clone(words), i, i+1, words[i]+"x"),
				} {
					if a.Text(strings.Join(other, " ")).Digest == digest &&
						!slices.Equal(other, words) {
						t.Errorf("%s, %d words, %s at %d: equal digests", a.Name(), n, what, i)
					}
				}
			}
		}
	}
}

// Texts with equal tokens have equal Signatures, and a Digest that does not depend on the options.
func TestDigestOfEqualTexts(t *testing.T) {
	var b strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&b, "%s%d ", []string{"Caf\u00e9", "\ud55c\uad6d\uc5b4", "\u1ec7",
			"\u05d0\u05bc", "\u30ac\u30ae", "\u6f22\u5b57", "word"}[i%7], i%300)
	}
	text := b.String()
	texts := map[string]string{
		"text": text, "NFD": norm.NFD.String(text), "NFKD": norm.NFKD.String(text),
		"full width": width.Widen.String(text),
		"upper case": strings.ToUpper(text), "white space": strings.ReplaceAll(text, " ",
			"\t\u3000\n"), "punctuation": strings.ReplaceAll(text, " ", " \u2014 "),
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

func TestDigestJSON(t *testing.T) {
	type document struct {
		Digest Digest `json:"digest,omitzero"`
	}
	for text, want := range map[string]document{`{"digest":"00000000000000ff"}`: {0xff}, `{}`: {}} {
		b, err := json.Marshal(want)
		var got document
		if err != nil || string(b) != text || json.Unmarshal(b, &got) != nil || got != want {
			t.Errorf("%s, %v; %+v", b, err, got)
		}
	}
	if err := json.Unmarshal([]byte(`{"digest":"xyz"}`),
		new(document)); !errors.Is(err, ErrSyntax) {
		t.Error(err)
	}
}
