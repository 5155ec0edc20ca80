package match

import (
	"errors"
	"math"
	"testing"

	"github.com/neardup/neardup/fingerprint"
)

func TestRule(t *testing.T) {
	const far = ^fingerprint.Fingerprint(0)
	rule := Rule{MaxDistance: 3, MaxShingleDistance: 5, MaxLengthRatio: 1.5}
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
