package compare

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/internal/match"
)

// The condition that compare names must agree with the rule of the index.
func TestCompareMatchesRule(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	rule, matching := match.Rule{MaxDistance: 3, MaxShingleDistance: 9, ShortAllowance: 3,
		MaxLengthRatio: 1.3}, 0
	draw := func() *Document {
		few := func() fingerprint.Fingerprint {
			return fingerprint.Fingerprint(rng.Uint64() & rng.Uint64() & 0xfff)
		}
		return &Document{Fingerprint: few() & 0x3f, Shingles: fingerprint.ShingleSignature{0,
			uint64(few())}, Tokens: rng.IntN(3) * (10 + rng.IntN(4)),
			Scope: []string{"", "", "a"}[rng.IntN(3)]}
	}
	for range 2000 {
		a, b := draw(), draw()
		r := Documents(a, b, rule, 0)
		documents := [2]match.Document{}
		for i, s := range []*Document{a, b} {
			documents[i] = match.Document{Fingerprint: s.Fingerprint, Shingles: s.Shingles,
				Tokens: s.Tokens, Scope: s.Scope}
		}
		if r.Match {
			matching++
		}
		if want := rule.Matches(&documents[0], &documents[1]); r.Match != want {
			t.Errorf("%+v and %+v: %v by %v, want %v", a, b, r.Match, r.Decided, want)
		}
	}
	if matching < 200 || matching > 1800 {
		t.Errorf("%d match", matching)
	}
}

// TestDifferences tests that exactly the words that differ are marked.
func TestDifferences(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	for range 300 {
		var a, b, gone, come []string
		for i := range 50 {
			word := "w" + string(rune('a'+i%26)) + string(rune('a'+i/26))
			switch rng.IntN(10) {
			case 0:
				a, gone = append(a, word), append(gone, word)
			case 1:
				b, come = append(b, word), append(come, word)
			default:
				a, b = append(a, word), append(b, word)
			}
		}
		var minus, plus []string
		for _, place := range differences(a, b) {
			in := byte(' ')
			for _, word := range strings.Fields(place.String()) {
				if strings.HasPrefix(word, "[-") || strings.HasPrefix(word, "{+") {
					in = word[1]
				}
				bare := strings.Trim(word, "[]{}+-")
				switch in {
				case '-':
					minus = append(minus, bare)
				case '+':
					plus = append(plus, bare)
				}
				if strings.HasSuffix(word, "-]") || strings.HasSuffix(word, "+}") {
					in = ' '
				}
			}
		}
		if !slices.Equal(minus, gone) || !slices.Equal(plus, come) {
			t.Fatalf("%v and %v:\n%q", a, b, differences(a, b))
		}
	}
}

// TestLongDifferences tests that documents without a common word are not printed as a whole.
func TestLongDifferences(t *testing.T) {
	var a, b []string
	for i := range 10_000 {
		a, b = append(a, fmt.Sprint("a", i)), append(b, fmt.Sprint("b", i))
	}
	places := differences(a, b)
	if len(places) != 1 || len(places[0].String()) > 1000 ||
		strings.Count(places[0].String(), "...(9950 words)...") != 2 ||
		!strings.HasSuffix(places[0].String(), "b9999+}") {
		t.Errorf("%.2000q", places)
	}
}
