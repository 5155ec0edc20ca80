package fingerprint

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// sameText lists the pairs of declarations that really are one text: the same
// language in two orthographies, or a file that repeats another's text under
// another name. TestDeclarationsDiffer holds each against its words.
var sameText = [][2]string{
	{"016", "017"},                 // Minjiang, spoken and written
	{"042", "spa"},                 // Spanish, two editions
	{"chr_cased", "chr_uppercase"}, // Cherokee in mixed case and in capitals
	{"ckb", "kmr"},                 // both hold the same Kurdish text
	{"deu_1901", "deu_1996"},       // German, old and new spelling
	{"jpn", "jpn_osaka"},           // one Japanese text, words replaced here and there
	{"jpn_osaka", "jpn_tokyo"},
	{"kng", "ktu"},    // Koongo and Kituba
	{"tam", "tam_LK"}, // Tamil, two editions
}

func TestDeclarationsDiffer(t *testing.T) {
	a := newAnalyzer(t, Options{})
	all := declarations(t)
	signatures := make([]Signature, len(all))
	for i, d := range all {
		signatures[i] = a.Text(d.text)
		if signatures[i].Features == 0 {
			t.Errorf("%s (%s): no token in %d bytes", d.key, d.name, len(d.text))
		}
		if n := len(d.text); n > 3000 && (signatures[i].Short || signatures[i].Features < n/60) {
			t.Errorf("%s (%s): %+v for %d bytes", d.key, d.name, signatures[i], n)
		}
	}
	found := map[[2]string]bool{}
	for i := range all {
		for j := range i {
			pair := [2]string{all[j].key, all[i].key}
			slices.Sort(pair[:])
			same := slices.Contains(sameText, pair)
			distance := signatures[i].Fingerprint.Distance(signatures[j].Fingerprint)
			if distance <= 3 && !same {
				t.Errorf("%s and %s: distance %d, word overlap %.2f", pair[0], pair[1], distance, overlap(all[i].text, all[j].text))
			}
			if same {
				found[pair] = true
				if o := overlap(all[i].text, all[j].text); distance > 3 || o < 0.85 {
					t.Errorf("%s and %s are listed as one text: distance %d, word overlap %.2f", pair[0], pair[1], distance, o)
				}
			}
		}
	}
	if len(found) != len(sameText) {
		t.Errorf("%d of the %d listed pairs are in the data", len(found), len(sameText))
	}
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
	{"order of marks", shuffleMarks},
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

func TestDeclarationsInOtherSpellings(t *testing.T) {
	const seed = 17
	a := newAnalyzer(t, Options{})
	for _, d := range declarations(t) {
		if len(d.text) > 5_000 {
			d.text = d.text[:5_000]
		}
		want := a.Text(d.text)
		for _, v := range variants {
			rng := rand.New(rand.NewPCG(seed, 0))
			changed := v.change(rng, d.text)
			if got := a.Text(changed); got != want {
				t.Errorf("%s (%s), %s, seed %d: %+v, want %+v", d.key, d.name, v.name, seed, got, want)
				reportDifference(t, d.text, changed)
			}
		}
	}
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
