package fingerprint

import (
	"math/rand/v2"
	"strings"
	"testing"

	"golang.org/x/text/unicode/norm"
)

// composingText writes letters and what may follow them in one part of Unicode.
func composingText(rng *rand.Rand, letters, marks []rune) string {
	var b strings.Builder
	for range 1 + rng.IntN(8) {
		b.WriteRune(letters[rng.IntN(len(letters))])
		for range rng.IntN(4) {
			b.WriteRune(marks[rng.IntN(len(marks))])
		}
		if rng.IntN(6) == 0 {
			b.WriteByte(' ')
		}
	}
	return b.String()
}

func TestCompositionsOfRandomText(t *testing.T) {
	const seed = 41
	rng := rand.New(rand.NewPCG(seed, 0))
	for _, part := range []struct{ letters, marks string }{
		{"aeioudyjnkszAEIOUçêẹơưọıİßſª²½ŀŉǆﬁéǖṩKÅ", "\u0300\u0301\u0302\u0303\u0304\u0306\u0307\u0308\u0309\u030c\u031b\u0323\u0327\u0328\u0331\u0338\u0344\u0345\u034f\u00ad\u200d"},
		{"αιυωρΑΗΥάΐᾳῳᾴᾼἀἐἠὠὰέϊ\u1f71\u1f73", "\u0300\u0301\u0308\u0313\u0314\u0342\u0344\u0345\u0304\u200d"},
		{"иеІКйёы", "\u0300\u0301\u0304\u0306\u0308\u0483\u00ad"},
		{"ايوهۀءلאשﺍﻻבּ", "\u0653\u0654\u0655\u064b\u0651\u0640\u05b0\u05bc\u05c1\u06e5"},
		{"\u1100\u1103\u1112가깋각ㄱㅏ中", "\u1161\u1175\u11a8\u11c2\u1161\u302e\u0301"},
		{"कनरळय़ड़ক়ে", "\u093c\u0942\u094d\u0951\u0952\u200d\u09be\u09d7\u0307"},
		{"കകெேೆಕసසි", "\u0bbe\u0bd7\u0cc2\u0cd5\u0cd6\u0d3e\u0d57\u0dcf\u0ddf\u0dca\u0ccd"},
		{"\U00011103\U00011127\U00011347\U0001132A\U0001E922\U0001E900\U0001D400\U0001F600a", "\U00011127\U0001112e\U00011131\U0001133e\U00011357\U0001E944\U0001E94A\u0301\U000E0101"},
		{"กาสດໜາあかカｶ々က", "\u0e38\u0e48\u0e4d\u0e33\u0ecd\u0ec8\u0eb3\u3099\u309a\uff9e\u1039\u1037\u200b"},
	} {
		letters, marks := []rune(part.letters), []rune(part.marks)
		for n := 0; n < 12_000 && !t.Failed(); n++ {
			text := composingText(rng, letters, marks)
			checkTokens(t, text)
			checkHashes(t, text)
		}
	}
}

// BenchmarkSpellings takes real texts with all marks as characters of their own.
func BenchmarkSpellings(b *testing.B) {
	for _, d := range declarations(b) {
		switch d.key {
		case "vie", "yor", "nav", "lit", "deu_1996", "ell_polytonic", "ces", "arb", "kor", "jpn":
			b.Run(d.key, func(b *testing.B) { benchmarkTexts(b, []string{norm.NFD.String(d.text)}) })
		}
	}
}
