package match

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/neardup/neardup/fingerprint"
)

func TestRule(t *testing.T) {
	const far = ^fingerprint.Fingerprint(0)
	rule := Rule{MaxDistance: 3, MaxShingleDistance: 5, MaxLengthRatio: 1.5}
	short := rule
	short.ShortAllowance = 2
	for _, c := range []struct {
		what string
		rule Rule
		a, b Document
		want bool
	}{
		{"k bits", rule, Document{Fingerprint: 0b111}, Document{}, true},
		{"one bit more", rule, Document{Fingerprint: 0b1111}, Document{}, false},
		{"another scope", rule, Document{Scope: "a"}, Document{Scope: "b"}, false},
		{"keys do not count", rule, Document{Scope: "a", Key: "x"}, Document{Scope: "a", Key: "y"}, true},
		{"one without a Shingle", rule, Document{Shingle: far}, Document{}, true},
		{"Shingles at the limit", rule, Document{Shingle: 0b111111}, Document{Shingle: 1}, true},
		{"and the fingerprint a bit apart", rule, Document{Shingle: 0b111111}, Document{Shingle: 1, Fingerprint: 1}, false},
		{"Shingles beyond it", rule, Document{Shingle: 0b1111111}, Document{Shingle: 1}, false},
		{"Shingles that do not count", rule.With(-1, 0), Document{Shingle: far}, Document{Shingle: 1}, true},
		{"Shingles of a larger limit", rule.With(6, 0), Document{Shingle: 0b1111111}, Document{Shingle: 1}, true},
		{"one of unknown length", rule, Document{Tokens: 1000}, Document{}, true},
		{"lengths at the limit", rule, Document{Tokens: 100}, Document{Tokens: 150}, true},
		{"lengths beyond it", rule, Document{Tokens: 151}, Document{Tokens: 100}, false},
		{"lengths that do not count", rule.With(0, -1), Document{Tokens: 151}, Document{Tokens: 100}, true},
		{"lengths of a larger limit", rule.With(0, 1.6), Document{Tokens: 151}, Document{Tokens: 100}, true},
		{"short texts may be further apart", short, Document{Shingle: 0b1111111, Tokens: 100}, Document{Shingle: 1, Tokens: 90}, true},
		{"but no more than that", short, Document{Shingle: 0b11111111, Tokens: 100}, Document{Shingle: 1, Tokens: 90}, false},
		{"the longer counts", short, Document{Shingle: 0b1111111, Tokens: 101}, Document{Shingle: 1, Tokens: 90}, false},
		{"texts of no known length are long", short, Document{Shingle: 0b1111111}, Document{Shingle: 1}, false},
		{"short ones, whatever the ratio", short.With(0, -1), Document{Shingle: 0b1111111, Tokens: 1}, Document{Shingle: 1, Tokens: 100}, true},
	} {
		if got, back := c.rule.Matches(&c.a, &c.b), c.rule.Matches(&c.b, &c.a); got != c.want || back != c.want {
			t.Errorf("%s: %v, and %v the other way round", c.what, got, back)
		}
		// What is not relevant makes no difference.
		for _, d := range []*Document{&c.a, &c.b} {
			s := c.rule.Relevant(d.Signature())
			d.Shingle, d.Tokens = s.Shingle, s.Tokens
		}
		if got := c.rule.Matches(&c.a, &c.b); got != c.want {
			t.Errorf("%s: %v by what is relevant", c.what, got)
		}
	}
}

func TestRatioIsChecked(t *testing.T) {
	for ratio, want := range map[float64]error{-1: nil, 1: nil, 1.3: nil, math.Inf(1): nil, 0: ErrRatio, 0.99: ErrRatio} {
		if err := (Rule{MaxLengthRatio: ratio}).Check(); !errors.Is(err, want) {
			t.Errorf("%g: %v", ratio, err)
		}
	}
	if err := (Rule{MaxLengthRatio: math.NaN()}).Check(); !errors.Is(err, ErrRatio) {
		t.Errorf("no number: %v", err)
	}
}

// TestLimitsOfAnalyzers: fingerprints are asked with what they need, and those of no known analyzer
// as those before MinHash.
func TestLimitsOfAnalyzers(t *testing.T) {
	for analyzer, want := range map[string]Rule{
		"visible text/4":       {6, 13, 1.3, 22},
		"visible/3 text/4":     {6, 13, 1.3, 22},
		"text/4 seed=7":        {6, 13, 1.3, 22},
		"image text/4 of mine": {6, 16, 1.3, 0}, // text/4 stands in it, and it is no name of one
		"my own text/4":        {6, 16, 1.3, 0},
		"visible simhash/1":    {6, 16, 1.3, 0},
		"":                     {6, 16, 1.3, 0},
		"text/40":              {6, 16, 1.3, 0},
	} {
		if got := For(analyzer, 6); got != want {
			t.Errorf("%q: %+v, want %+v", analyzer, got, want)
		}
	}
}

// TestRulesOut: what is ruled out by its Shingle, before the length that goes with it is read, does not match.
func TestRulesOut(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	length := func() int { return max(0, rng.IntN(400)-100) }
	for range 100_000 {
		rule := Rule{MaxShingleDistance: rng.IntN(40), MaxLengthRatio: -1, ShortAllowance: rng.IntN(40)}
		a := fingerprint.Signature{Shingle: 1, Tokens: length()}
		b := fingerprint.Signature{Shingle: fingerprint.Fingerprint(rng.Uint64() & rng.Uint64() & rng.Uint64()), Tokens: length()}
		if distance := rng.IntN(9); rule.Allows(distance, a, b) && rule.RulesOut(distance, b.Shingle, a) {
			t.Fatalf("%+v, %d bits: %+v and %+v match once the second length is known", rule, distance, a, b)
		}
	}
}
