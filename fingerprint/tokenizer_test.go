package fingerprint

import (
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/neardup/neardup/internal/testing/testenv"
	"golang.org/x/text/unicode/norm"
)

// naiveTokens is the oracle. It normalizes the whole text and then splits it, by the character
// properties of Unicode 15.0 and without the class table.
func naiveTokens(text string) (tokens []string) {
	var part []rune
	for _, r := range text {
		if property(r).is(unknownProperty) {
			tokens = append(naiveAssigned(tokens, part), string(r))
			part = part[:0]
			continue
		}
		part = append(part, r)
	}
	return naiveAssigned(tokens, part)
}

func naiveAssigned(tokens []string, text []rune) []string {
	var token []rune
	inSingle := false
	flush := func() {
		if len(token) > 0 {
			tokens = append(tokens, string(token))
		}
		token = nil
	}
	for _, r := range naiveNormal(string(text)) {
		switch {
		case r == '\u02BB' || r == '\u02BC' || !property(r).is(letterProperty|markProperty):
			flush()
		case property(r).is(markProperty):
			if len(token) > 0 {
				token = append(token, r)
			}
		case property(r).is(singleProperty):
			if !inSingle || len(token) == 0 ||
				!slices.Contains([]rune{0x1039, 0x17D2, 0x1A60, 0x1B44, 0xA9C0},
					token[len(token)-1]) {
				flush()
			}
			token, inSingle = append(token, r), true
		default:
			if inSingle {
				flush()
			}
			token, inSingle = append(token, r), false
		}
	}
	flush()
	return tokens
}

func naiveNormal(text string) string {
	var b strings.Builder
	afterI := false
	for _, r := range norm.NFKD.String(text) {
		r = property(r).folded
		switch {
		case property(r).is(ignorableProperty):
			continue
		case r == 'ß':
			b.WriteString("ss")
		case r == '\u0307' && afterI:
			continue
		default:
			b.WriteRune(r)
		}
		afterI = r == 'i' || afterI && property(r).is(markProperty)
	}
	return composedVowels.Replace(norm.NFKC.String(b.String()))
}

var composedVowels = strings.NewReplacer("\u0E4D\u0E32", "\u0E33", "\u0ECD\u0EB2",
	"\u0EB3", "\u034F", "")

// beyondOracle reports whether package norm counts 30 consecutive characters that may combine
// with the character before them. In this case it reorders the characters before and after
// separately. Apart from marks, these characters are vowels and final consonants of Hangul as
// single jamo, and the result of U+0345.
func beyondOracle(text string) bool {
	run, letters := 0, false
	for _, r := range norm.NFKD.String(text) {
		isLetter := r == '\u0345' || 0x1160 <= r && r <= 0x11FF
		if isLetter || property(r).is(markProperty|ignorableProperty) {
			run++
			letters = letters || isLetter
		} else {
			run, letters = 0, false
		}
		if run > 30 && letters {
			return true
		}
	}
	return false
}

// One tokenizer serves all tests, so that its cache is tested too.
var testTokenizer tokenizer

func tokensOf(text string) []string { return testTokenizer.tokens(text) }

// checkTokens compares the tokens of a text, and their hashes, with the oracle.
func checkTokens(t *testing.T, text string) {
	t.Helper()
	want := naiveTokens(text)
	if got := tokensOf(text); !slices.Equal(got, want) {
		t.Errorf("tokens of %.200q:\n got %.200q\nwant %.200q", text, got, want)
	}
	testTokenizer.begin([]byte(text))
	var hashes []uint64
	for !testTokenizer.done() {
		hashes = testTokenizer.next(hashes, 7) // a batch may end anywhere
	}
	if !slices.EqualFunc(hashes, want, func(h uint64, token string) bool {
		return h == padded([]byte(token))
	}) {
		t.Errorf("hashes of the tokens of %.200q differ: %d, want %d; tokens %.200q", text,
			len(hashes), len(want), want)
	}
}

func TestTokensOfEveryCharacter(t *testing.T) {
	step := rune(3)
	switch {
	case testenv.Race:
		step = 13 // one goroutine, which the race detector slows
	case os.Getenv("NEARDUP_CI") != "":
		step = 1
	}
	for r := rune(0); r <= unicode.MaxRune && !t.Failed(); r += step {
		if !utf8.ValidRune(r) || r >= 0x40000 && r>>13 != 0xE0000>>13 &&
			r&0xFFF < 0xFF0 && r%16 > 0 {
			continue // most characters of these planes are not assigned
		}
		checkTokens(t, string(r))
		if r < 0x32000 && !(0x3400 <= r && r < 0x9F00 || 0xAC20 <= r && r < 0xD700 ||
			0x17000 <= r && r < 0x18C00 || 0x20000 <= r && r < 0x2F000) {
			checkTokens(t, "a"+string(r)+"\u0301b")
			checkTokens(t, "ア"+string(r)+"\u3099ア")
		}
	}
}

// runePool returns characters of every class. Special cases are frequent.
func runePool() []rune {
	pool := []rune(
		"abcIi19  .'\u0300\u0301\u0307\u0308\u0323\u0327\u0345\u00ad\u200d\u200b\ufe0fßẞİıſKÅåéÉσςΣάΆΐ" +
			"жЖйЙёかがカガｶﾞﾟー々中文\uf900㈱①½²ªﬁＡａ１กนิุ้ำํາໍ\u17d2ខ្មែរក္ကးဦেোোাককোॐक़कऩ़్" +
			"\u0640بَّﷺﹱﻻعربيשׁבּתּ\u1100\u1161\u11a8가각ㄱㅏᄒ한ᏣꭰᲐა\u0378\u1c8a\ue000\ufffd\U00010400\U00010428\U0001D400\U0002F800\U00020000\U000E0101")
	for r := rune(0x80); r < 0x20000; r += 97 {
		if utf8.ValidRune(r) {
			pool = append(pool, r)
		}
	}
	return pool
}

func TestTokensOfRandomText(t *testing.T) {
	const seed = 11
	pool := runePool()
	frequent := min(len(pool)/2, 150)
	invalid := func(b *strings.Builder, rng *rand.Rand) {
		for range 1 + rng.IntN(4) {
			b.WriteByte(0x80 + byte(rng.IntN(0x80)))
		}
	}
	for _, test := range []struct {
		name   string
		texts  int
		length int // parts, on average
		part   func(b *strings.Builder, rng *rand.Rand)
	}{
		{"all classes", 40_000, 6, func(b *strings.Builder, rng *rand.Rand) {
			if rng.IntN(4) == 0 {
				b.WriteRune(pool[rng.IntN(len(pool))])
			} else {
				b.WriteRune(pool[rng.IntN(frequent)])
			}
			if rng.IntN(20) == 0 {
				invalid(b, rng)
			}
		}},
		{"words", 60_000, 7, func(b *strings.Builder, rng *rand.Rand) {
			b.WriteString(randomParts[rng.IntN(len(randomParts))])
		}},
		{"letters of two bytes", 20_000, 40, func(b *strings.Builder, rng *rand.Rand) {
			switch k := rng.IntN(60); {
			case k == 0:
				b.WriteString(oddParts[rng.IntN(len(oddParts))])
			case k < 10:
				b.WriteByte(" .,\n"[k%4])
			default:
				b.WriteRune(twoByteLetters[rng.IntN(len(twoByteLetters))])
			}
		}},
	} {
		rng := rand.New(rand.NewPCG(seed, uint64(test.texts)))
		for n := 0; n < testenv.Number(test.texts/20, test.texts, test.texts, 10*test.texts) &&
			!t.Failed(); n++ {
			var b strings.Builder
			for range 1 + rng.IntN(2*test.length) {
				test.part(&b, rng)
			}
			// the tokenizer has special code for the last bytes of a text
			b.WriteString("        "[:rng.IntN(9)])
			checkTokens(t, b.String())
		}
		if t.Failed() {
			t.Fatalf("%s, seed %d", test.name, seed)
		}
	}
}

var randomParts = []string{
	" ", " ", ".", "\n", "\u00a0", "«", "»", "،", "’", "“", "–", "…", "\u200c", "\u00ad", "\u064b",
	"\u0651", "\u05b7", "\u0301", "\u0307", "\u0640",
	"a", "I", "ı", "İ", "i", "ß", "ẞ", "é", "E\u0301", "ÿ", "Ÿ", "ǅ", "ſ", "K", "σ", "ς", "Σ", "ά",
	"ж", "Ж", "й", "Й", "и\u0306", "ا", "لا", "\u0627\u0653",
	"أ", "ﻻ", "ש", "שׁ", "中", "カ", "ｶﾞ", "한", "ก", "の", "9", "٣", "\u0378", "\ufffd", "\xc3",
	"\xe2\x80", "😀", "word", "Wörter", "слово", "كلمة",
	"strassenbahnhaltestelle", "непротивозаконный", "donaudampfschifffahrtsgesellschaft",
}

var (
	twoByteLetters = []rune(
		"абвгдеёжзийАБВГДЕЖЙαβγδςάΣΩأبتثجمنوياאבגדהוզէთßÿıİ×«»\u00a0\u00ad\u064b\u05b0\u0640٣")
	oddParts = []string{"\u0301", "\u0308", "ǆ", "Ⱥ", "ΐ", "²", "ª", "\xc0\xaf", "\xc1\x81",
		"\xd0", "\x80", "\xd0\xd0\xb0", "中", "ẹ", "—", "…", "😀", "\u0378", "7", "x", "Z", "\n"}
)

func TestCompositionsOfRandomText(t *testing.T) {
	const seed = 41
	rng := rand.New(rand.NewPCG(seed, 0))
	for _, part := range []struct{ letters, marks string }{
		{"aeioudyjnkszAEIOUçêẹơưọıİßſª²½ŀŉǆﬁéǖṩKÅ",
			"\u0300\u0301\u0302\u0303\u0304\u0306\u0307\u0308\u0309\u030c\u031b\u0323\u0327\u0328\u0331\u0338\u0344\u0345\u034f\u00ad\u200d"},
		{"αιυωρΑΗΥάΐᾳῳᾴᾼἀἐἠὠὰέϊ\u1f71\u1f73",
			"\u0300\u0301\u0308\u0313\u0314\u0342\u0344\u0345\u0304\u200d"},
		{"иеІКйёы", "\u0300\u0301\u0304\u0306\u0308\u0483\u00ad"},
		{"ايوهۀءلאשﺍﻻבּ", "\u0653\u0654\u0655\u064b\u0651\u0640\u05b0\u05bc\u05c1\u06e5"},
		{"\u1100\u1103\u1112가깋각ㄱㅏ中", "\u1161\u1175\u11a8\u11c2\u1161\u302e\u0301"},
		{"कनरळय़ड़ক়ে", "\u093c\u0942\u094d\u0951\u0952\u200d\u09be\u09d7\u0307"},
		{"കകெேೆಕసසි", "\u0bbe\u0bd7\u0cc2\u0cd5\u0cd6\u0d3e\u0d57\u0dcf\u0ddf\u0dca\u0ccd"},
		{"\U00011103\U00011127\U00011347\U0001132A\U0001E922\U0001E900\U0001D400\U0001F600a",
			"\U00011127\U0001112e\U00011131\U0001133e\U00011357\U0001E944\U0001E94A\u0301\U000E0101"},
		{"กาสດໜາあかカｶ々က",
			"\u0e38\u0e48\u0e4d\u0e33\u0ecd\u0ec8\u0eb3\u3099\u309a\uff9e\u1039\u1037\u200b"},
	} {
		letters, marks := []rune(part.letters), []rune(part.marks)
		for n := 0; n < testenv.Number(1000, 12_000, 12_000, 120_000) && !t.Failed(); n++ {
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
			checkTokens(t, b.String())
		}
	}
}

// TestRunsWithoutSeparators tests that no loop writes beyond its buffer.
func TestRunsWithoutSeparators(t *testing.T) {
	var texts []string
	for _, s := range []string{
		"a", "é", "É", "ж", "Ж", "ا", "ß", "\u00a0", "«", "\u00ad", "e\u0301", "ж\u0301",
		"ä\u0323\u0301", "²", "և", "ΐ", "ᾼ\u0301", "aж", "aжक", "жक", "ж中", "жก",
		"한", "\u1100\u1161\u11a8", "क", "का", "Ꭰ", "ꭰ", "ẹ", "ẞ", "ﬁ", "ᾳ", "中", "か", "か\u3099",
		"ｶﾞ", "ก", "กำ", "ກໍ່າ", "က္ကး", "\u0378", "\ufdfa", "㌖", "\u3000",
		"\U00011103\U00011127", "\U0001E922", "\U0001E900\U0001E944", "\U0001D400", "\U0001F600",
		"\U00020000", "\U0002F800", "\xc3", "\xe1\x80", "\xf0\x90\x80", "\x80",
	} {
		texts = append(texts, strings.Repeat(s, 6000/len(s)))
	}
	for _, letter := range []string{"a", "ж", "ا", "क", "中", "か", "ก", "က", "각", "\U00011103"} {
		for _, mark := range []string{"\u0301", "\u0301\u0327", "\u064b", "\u093c", "\u094d",
			"\u0e38", "\u0e48\u0e38", "\u1039", "\u3099", "\u20d0", "\u200d", "\U00011127"} {
			texts = append(texts, letter+strings.Repeat(mark, 6000/len(mark))+letter)
		}
	}
	for _, text := range texts {
		checkTokens(t, text)
	}
}

// TestTokensOfLongText uses texts with few different characters and hardly any separators.
func TestTokensOfLongText(t *testing.T) {
	const seed = 17
	rng := rand.New(rand.NewPCG(seed, 0))
	pool := runePool()
	for n := 0; n < testenv.Number(30, 300, 300, 3000) && !t.Failed(); n++ {
		few := make([]rune, 1+rng.IntN(6))
		for i := range few {
			few[i] = pool[rng.IntN([]int{len(pool), 150}[rng.IntN(2)])]
		}
		var b strings.Builder
		for range 500 + rng.IntN(3000) {
			switch rng.IntN(400) {
			default:
				b.WriteRune(few[rng.IntN(len(few))])
			case 0, 1, 2, 3, 4:
				b.WriteRune(pool[rng.IntN(len(pool))])
			case 5:
				b.WriteByte(byte(rng.Uint32()))
			}
		}
		if text := b.String(); !beyondOracle(text) &&
			!slices.Equal(tokensOf(text), naiveTokens(text)) {
			t.Errorf("seed %d, text %d, mostly of %+q: tokens differ", seed, n, few)
		}
	}
}
