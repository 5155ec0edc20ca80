package fingerprint

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// checkHashes holds the ways that give a token's hash without its text to the
// hashes of the naive tokens.
func checkHashes(t *testing.T, text string) {
	t.Helper()
	var want, got []uint64
	for _, token := range naiveTokens(text) {
		want = append(want, padded([]byte(token)))
	}
	testTokenizer.begin([]byte(text), Folded)
	got = testTokenizer.next(got, len(text))
	if !slices.Equal(got, want) {
		t.Errorf("hashes of the tokens of %+q differ: %d, want %d; tokens %+q", text, len(got), len(want), naiveTokens(text))
	}
}

func TestHashesOfRandomWords(t *testing.T) {
	const seed = 31
	rng := rand.New(rand.NewPCG(seed, 0))
	parts := []string{
		" ", " ", ".", "\n", "\u00a0", "«", "»", "،", "’", "“", "–", "…", "\u200c", "\u00ad", "\u064b", "\u0651", "\u05b7", "\u0301", "\u0307", "\u0640",
		"a", "I", "ı", "İ", "i", "ß", "ẞ", "é", "E\u0301", "ÿ", "Ÿ", "ǅ", "ſ", "K", "σ", "ς", "Σ", "ά", "ж", "Ж", "й", "Й", "и\u0306", "ا", "لا", "\u0627\u0653",
		"أ", "ﻻ", "ש", "שׁ", "中", "カ", "ｶﾞ", "한", "ก", "の", "9", "٣", "\u0378", "\ufffd", "\xc3", "\xe2\x80", "😀", "word", "Wörter", "слово", "كلمة",
		"strassenbahnhaltestelle", "непротивозаконный", "donaudampfschifffahrtsgesellschaft",
	}
	for n := 0; n < 60_000 && !t.Failed(); n++ {
		var b strings.Builder
		for range 1 + rng.IntN(14) {
			b.WriteString(parts[rng.IntN(len(parts))])
		}
		b.WriteString("        "[:rng.IntN(9)]) // the last bytes of a text are read with care
		checkHashes(t, b.String())
	}
}

func TestHashesOfDeclarations(t *testing.T) {
	for i, d := range declarations(t) {
		if !testing.Short() || i%5 == 0 {
			checkHashes(t, d.text[:strings.LastIndexByte(d.text[:min(len(d.text), 4000)], '\n')+1])
		}
	}
}
