package fingerprint

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode"

	"golang.org/x/text/unicode/norm"
	"golang.org/x/text/width"
)

// sameText lists the declarations that really are one text: the same language in
// two orthographies or editions, one text with words replaced here and there, or
// a file that repeats another's text under another name.
var sameText = [][]string{
	{"016", "017"}, // Minjiang, spoken and written
	{"023", "cjy", "cmn_hans", "cmn_hans_guiyang", "cmn_hans_harbin"}, // Mandarin of several places, and Jin
	{"042", "spa"},                       // Spanish, two editions
	{"chr_cased", "chr_uppercase"},       // Cherokee in mixed case and in capitals
	{"ckb", "kmr"},                       // both hold the same Kurdish text
	{"deu_1901", "deu_1996"},             // German, old and new spelling
	{"hau_NE", "hau_NG"},                 // Hausa of Niger and of Nigeria
	{"jpn", "jpn_osaka", "jpn_tokyo"},    // one Japanese text
	{"kng", "ktu"},                       // Koongo and Kituba
	{"pes_1", "pes_2"},                   // Farsi and Dari
	{"ron_1953", "ron_1993", "ron_2006"}, // Romanian, three spellings
	{"tam", "tam_LK"},                    // Tamil, two editions
	{"tha", "tha2"},                      // Thai, two editions
	{"urd", "urd_2"},                     // Urdu, two editions
	{"ven", "ven2"},                      // Venda, two editions
}

// What a pair of the list must at least have in common to be one text, and from
// where on it surely is, so that it must match.
const (
	oneText    = 0.85
	surelySame = 0.995
)

// TestDeclarationsDiffer holds that by the rules of dedup, before and now, no two
// languages' declarations match, and that no signature is empty or constant.
func TestDeclarationsDiffer(t *testing.T) {
	a := newAnalyzer(t, Options{})
	all := declarations(t)
	signatures := make([]Signature, len(all))
	for i, d := range all {
		s := a.Text(d.text)
		signatures[i] = s
		if s.Tokens == 0 {
			t.Errorf("%s (%s): no token in %d bytes", d.key, d.name, len(d.text))
			continue
		}
		for _, word := range append(s.Shingles[:], uint64(s.Fingerprint)) {
			if ones := bits.OnesCount64(word); ones < 12 || ones > 52 {
				t.Errorf("%s (%s): %d bits of %016x are set", d.key, d.name, ones, word)
			}
		}
		if n := len(d.text); n > 3000 && (s.Short || s.Tokens < n/60) {
			t.Errorf("%s (%s): %+v for %d bytes", d.key, d.name, s, n)
		}
	}
	matches := 0
	for i := range all {
		for j := range i {
			distance := signatures[i].Fingerprint.Distance(signatures[j].Fingerprint)
			shingle := signatures[i].Shingles.Distance(signatures[j].Shingles)
			match := near(signatures[i], signatures[j])
			same := slices.ContainsFunc(sameText, func(keys []string) bool {
				return slices.Contains(keys, all[i].key) && slices.Contains(keys, all[j].key)
			})
			if !match && !same {
				continue
			}
			words := overlap(all[i].text, all[j].text)
			pair := fmt.Sprintf("%s and %s: distances %d and %d, %.3f of the words", all[j].key, all[i].key, distance, shingle, words)
			switch {
			case match && !same:
				t.Errorf("%s: match, and are not listed as one text", pair)
			case words < oneText:
				t.Errorf("%s: listed as one text, and are not", pair)
			case words >= surelySame && !match:
				t.Errorf("%s: one text, and do not match", pair)
			}
			if match {
				matches++
				t.Log(pair)
			}
		}
	}
	t.Logf("%d declarations, %d pairs of them match, all of one text", len(all), matches)
}

// overlap is the Dice coefficient of the texts' token multisets.
func overlap(s, t string) float64 {
	counts := map[string]int{}
	a, b := tokensOf(s), tokensOf(t)
	for _, w := range a {
		counts[w]++
	}
	common := 0
	for _, w := range b {
		if counts[w]--; counts[w] >= 0 {
			common++
		}
	}
	return 2 * float64(common) / float64(len(a)+len(b))
}

// variants are ways to write a text that must not change its tokens.
var variants = []struct {
	name   string
	change func(rng *rand.Rand, s string) string
}{
	{"NFC", func(_ *rand.Rand, s string) string { return norm.NFC.String(s) }},
	{"NFD", func(_ *rand.Rand, s string) string { return norm.NFD.String(s) }},
	{"NFKC", func(_ *rand.Rand, s string) string { return norm.NFKC.String(s) }},
	{"NFKD", func(_ *rand.Rand, s string) string { return norm.NFKD.String(s) }},
	{"upper case", func(_ *rand.Rand, s string) string { return strings.ToUpper(s) }},
	{"lower case", func(_ *rand.Rand, s string) string { return strings.ToLower(s) }},
	{"Turkish upper case", func(_ *rand.Rand, s string) string { return strings.ToUpperSpecial(unicode.TurkishCase, s) }},
	{"Turkish lower case", func(_ *rand.Rand, s string) string { return strings.ToLowerSpecial(unicode.TurkishCase, s) }},
	{"full width", func(_ *rand.Rand, s string) string { return strings.Map(fullWidth, s) }},
	{"half width", func(_ *rand.Rand, s string) string { return width.Narrow.String(s) }},
	{"title case", func(_ *rand.Rand, s string) string { return strings.ToTitle(s) }},
	{"order of marks", shuffleMarks},
	{"partly composed", partlyComposed},
	{"presentation forms", presentationForms},
	{"optional points", addPoints},
	{"Greek oxia", func(_ *rand.Rand, s string) string { return oxia.Replace(s) }},
	{"invisible characters", addInvisible},
	{"other separators", func(_ *rand.Rand, s string) string { return strings.ReplaceAll(s, " ", "\u00a0\t—\U0001f600") }},
}

func fullWidth(r rune) rune {
	if 0x21 <= r && r <= 0x7e {
		return r + 0xfee0
	}
	return r
}

// shuffleMarks decomposes the text and puts the marks of each character into
// another order that is canonically equivalent: marks of one combining class
// keep theirs.
func shuffleMarks(rng *rand.Rand, s string) string {
	runes := []rune(norm.NFD.String(s))
	for i := 0; i < len(runes); {
		j := i
		place := map[uint8]int{}
		for ; j < len(runes) && ccc(runes[j]) > 0; j++ {
			place[ccc(runes[j])] = rng.Int()
		}
		slices.SortStableFunc(runes[i:j], func(a, b rune) int { return place[ccc(a)] - place[ccc(b)] })
		i = j + 1
	}
	return string(runes)
}

// oxia is another code for the Greek tonos, canonically equivalent.
var oxia = strings.NewReplacer("\u03ac", "\u1f71", "\u03ad", "\u1f73", "\u03ae", "\u1f75", "\u03af", "\u1f77",
	"\u03cc", "\u1f79", "\u03cd", "\u1f7b", "\u03ce", "\u1f7d")

// partlyComposed decomposes some characters and leaves others, as texts from
// several hands are: in Vietnamese the tone may stand apart from the vowel.
func partlyComposed(rng *rand.Rand, s string) string {
	var b strings.Builder
	for _, r := range norm.NFC.String(s) {
		d := []rune(norm.NFD.String(string(r)))
		last := len(d) - 1
		switch {
		case rng.IntN(2) == 0:
			b.WriteRune(r)
		case last > 1: // the last mark only
			b.WriteString(norm.NFC.String(string(d[:last])))
			b.WriteRune(d[last])
		default:
			b.WriteString(string(d))
		}
	}
	return b.String()
}

// presentationForms writes Arabic and Hebrew letters by the codes of their
// shapes, lam and alef by that of the ligature.
func presentationForms(rng *rand.Rand, s string) string {
	var b strings.Builder
	runes := []rune(s)
	for i := 0; i < len(runes); i++ {
		if i+1 < len(runes) {
			if forms := shapes[string(runes[i:i+2])]; len(forms) > 0 {
				b.WriteRune(forms[rng.IntN(len(forms))])
				i++
				continue
			}
		}
		if forms := shapes[string(runes[i])]; len(forms) > 0 {
			b.WriteRune(forms[rng.IntN(len(forms))])
			continue
		}
		b.WriteRune(runes[i])
	}
	return b.String()
}

var shapes = func() map[string][]rune {
	m := map[string][]rune{}
	for _, block := range [][2]rune{{0xFB1D, 0xFB4F}, {0xFB50, 0xFBFF}, {0xFE80, 0xFEFC}} {
		for r := block[0]; r <= block[1]; r++ {
			plain := norm.NFKC.String(string(r))
			if letters := []rune(plain); plain != string(r) && unicode.IsLetter(letters[0]) && len(letters) <= 2 {
				m[plain] = append(m[plain], r)
			}
		}
	}
	return m
}()

// addPoints points Hebrew and Arabic letters here and there.
func addPoints(rng *rand.Rand, s string) string {
	hebrew, arabic := []rune("\u05b0\u05b4\u05b7\u05b8\u05bc\u05c1\u0591"), []rune("\u064b\u064e\u064f\u0650\u0651\u0652\u0670\u06d6")
	var b strings.Builder
	for _, r := range s {
		b.WriteRune(r)
		points := arabic
		switch {
		case unicode.Is(unicode.Hebrew, r) && unicode.IsLetter(r):
			points = hebrew
		case !unicode.Is(unicode.Arabic, r) || !unicode.IsLetter(r):
			continue
		}
		for range rng.IntN(3) {
			b.WriteRune(points[rng.IntN(len(points))])
		}
	}
	return b.String()
}

func ccc(r rune) uint8 { return norm.NFC.PropertiesString(string(r)).CCC() }

// addInvisible puts what does not show after letters: soft hyphens, joiners, a
// variation selector, and tatweel after Arabic letters.
func addInvisible(rng *rand.Rand, s string) string {
	invisible := []rune("\u00ad\u200b\u200c\u200d\u2060\ufeff\ufe0f\u034f")
	var b strings.Builder
	for _, r := range s {
		b.WriteRune(r)
		if unicode.IsLetter(r) && rng.IntN(8) == 0 {
			b.WriteRune(invisible[rng.IntN(len(invisible))])
			if unicode.Is(unicode.Arabic, r) {
				b.WriteRune('\u0640')
			}
		}
	}
	return b.String()
}

// delicate are declarations in scripts with more than one way to write a text.
var delicate = []string{"arb", "heb", "pes_1", "urd", "hin", "ben", "tam", "tha", "khm", "lao", "mya", "jpn", "kor", "ell_monotonic", "ell_polytonic",
	"vie", "tur", "aze_latn", "rus", "cmn_hant", "ydd", "uig_arab"}

func TestDeclarationsInOtherSpellings(t *testing.T) {
	const seed = 17
	a := newAnalyzer(t, Options{})
	changes := map[string]int{}
	for i, d := range declarations(t) {
		if testing.Short() && i%20 > 0 && !slices.Contains(delicate, d.key) {
			continue
		}
		if len(d.text) > 5_000 {
			d.text = d.text[:5_000]
		}
		want := a.Text(d.text)
		for _, v := range variants {
			rng := rand.New(rand.NewPCG(seed, 0))
			changed := v.change(rng, d.text)
			if changed != d.text {
				changes[v.name]++
			}
			if got := a.Text(changed); got != want {
				t.Errorf("%s (%s), %s, seed %d: %+v, want %+v", d.key, d.name, v.name, seed, got, want)
				reportDifference(t, d.text, changed)
			}
		}
	}
	for _, v := range variants {
		if changes[v.name] == 0 {
			t.Errorf("%s changes no text", v.name)
		}
	}
	t.Logf("texts changed: %v", changes)
}

func reportDifference(t *testing.T, s, changed string) {
	t.Helper()
	want, got := tokensOf(s), tokensOf(changed)
	for i := range min(len(want), len(got)) {
		if want[i] != got[i] {
			t.Errorf("\ttoken %d is %+q, was %+q", i, got[i], want[i])
			return
		}
	}
	t.Errorf("\t%d tokens, were %d", len(got), len(want))
}

// TestDeclarationsWithOneWordEdited holds that a text matches itself after one
// word of it was replaced by another, in every script.
func TestDeclarationsWithOneWordEdited(t *testing.T) {
	const seed, edits = 23, 4
	a := newAnalyzer(t, Options{})
	total, atThree, missed := 0, 0, 0
	for i, d := range declarations(t) {
		if testing.Short() && i%5 > 0 {
			continue
		}
		want := a.Text(d.text)
		if want.Short || want.Tokens < 500 {
			continue
		}
		rng := rand.New(rand.NewPCG(seed, uint64(len(d.text))))
		for range edits {
			got := a.Text(editWords(rng, d.text, 1))
			distance, shingle := want.Fingerprint.Distance(got.Fingerprint), want.Shingles.Distance(got.Shingles)
			total++
			if distance <= 3 && near(want, got) {
				atThree++
			}
			if !near(want, got) {
				missed++
				t.Logf("%s (%s): distances %d and %d, %d tokens", d.key, d.name, distance, shingle, want.Tokens)
			}
		}
	}
	t.Logf("%d edits: %.2f%% match at k = 3, %d missed at k = 6", total, 100*float64(atThree)/float64(total), missed)
	if missed*1000 > total {
		t.Errorf("%d of %d texts do not match themselves with one word edited, seed %d", missed, total, seed)
	}
}

// editWords puts words of a text in others' places, so many times; in a script without
// spaces, characters.
func editWords(rng *rand.Rand, text string, edits int) string {
	words := strings.Fields(text)
	if len(words)*20 > len(text) {
		for range edits {
			words[rng.IntN(len(words))] = words[rng.IntN(len(words))] + "x"
		}
		return strings.Join(words, " ")
	}
	runes := []rune(text)
	for edits > 0 {
		i, j := rng.IntN(len(runes)), rng.IntN(len(runes))
		if unicode.IsLetter(runes[i]) && unicode.IsLetter(runes[j]) && runes[i] != runes[j] {
			runes[i] = runes[j]
			edits--
		}
	}
	return string(runes)
}
