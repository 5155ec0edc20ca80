package match

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/neardup/neardup/fingerprint"
)

func TestRule(t *testing.T) {
	type shingles = fingerprint.ShingleSignature
	far := shingles{^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0)}
	rule := Rule{MaxDistance: 3, MaxShingleDistance: 5, MaxLengthRatio: 1.5}
	short, long := rule, Default(3)
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
		{"keys do not count", rule, Document{Scope: "a", Key: "x"},
			Document{Scope: "a", Key: "y"}, true},
		{"one without Shingles", rule, Document{Shingles: far}, Document{}, true},
		{"Shingles at the limit", rule, Document{Shingles: shingles{0b11, 0b1, 0b1, 0b11}},
			Document{Shingles: shingles{3: 1 << 1}}, true},
		{"Shingles beyond it", rule, Document{Shingles: shingles{0b11, 0b1, 0b1, 0b111}},
			Document{Shingles: shingles{3: 1 << 1}}, false},
		{"one bit below it, one of the fingerprint", rule, Document{Shingles: shingles{0b11111}},
			Document{Shingles: shingles{1}, Fingerprint: 1}, true},
		{"at the limit, one of the fingerprint", rule, Document{Shingles: shingles{0b111111}},
			Document{Shingles: shingles{1}, Fingerprint: 1}, false},
		{"Shingles that do not count", rule.With(-1, 0, 0), Document{Shingles: far},
			Document{Shingles: shingles{1}}, true},
		{"Shingles of a larger limit", rule.With(6, 0, 0), Document{Shingles: shingles{0b1111111}},
			Document{Shingles: shingles{1}}, true},
		{"one of unknown length", rule, Document{Tokens: 1000}, Document{}, true},
		{"lengths at the limit", rule, Document{Tokens: 100}, Document{Tokens: 150}, true},
		{"lengths beyond it", rule, Document{Tokens: 151}, Document{Tokens: 100}, false},
		{"lengths that do not count", rule.With(0, 0, -1), Document{Tokens: 151},
			Document{Tokens: 100}, true},
		{"lengths of a larger limit", rule.With(0, 0, 1.6), Document{Tokens: 151},
			Document{Tokens: 100}, true},
		{"short texts may be further apart", short, Document{Shingles: shingles{0b1111111},
			Tokens: 20}, Document{Shingles: shingles{1}, Tokens: 20}, true},
		{"but no more than that", short, Document{Shingles: shingles{0b11111111}, Tokens: 20},
			Document{Shingles: shingles{1}, Tokens: 20}, false},
		{"the longer counts", short, Document{Shingles: shingles{0b1111111}, Tokens: 21},
			Document{Shingles: shingles{1}, Tokens: 20}, false},
		{"with another allowance", short.With(0, 4, 0),
			Document{Shingles: shingles{0b11111111}, Tokens: 20},
			Document{Shingles: shingles{1}, Tokens: 20}, true},
		{"with another limit", short.With(6, 0, 0), Document{Shingles: shingles{0b1111111},
			Tokens: 20}, Document{Shingles: shingles{1}, Tokens: 20}, true},
		{"without an allowance", short.With(0, -1, 0),
			Document{Shingles: shingles{0b1111111}, Tokens: 20},
			Document{Shingles: shingles{1}, Tokens: 20}, false},
		{"texts of unknown length are long", short, Document{Shingles: shingles{0b1111111}},
			Document{Shingles: shingles{1}}, false},
		{"short ones, whatever the ratio", short.With(0, 0, -1),
			Document{Shingles: shingles{0b1111111}, Tokens: 1},
			Document{Shingles: shingles{1}, Tokens: 20}, true},
		{"between short and long", long, Document{Shingles: shingles{1<<18 - 1}, Tokens: 120},
			Document{Shingles: shingles{1}, Tokens: 120}, true},
		{"between short and long, beyond the limit", long,
			Document{Shingles: shingles{1<<19 - 1}, Tokens: 120},
			Document{Shingles: shingles{1}, Tokens: 120}, false},
		{"the same distance of long texts", long, Document{Shingles: shingles{1<<19 - 1},
			Tokens: 240}, Document{Shingles: shingles{1}, Tokens: 240}, true},
	} {
		if got, back := c.rule.Matches(&c.a, &c.b), c.rule.Matches(&c.b, &c.a); got != c.want ||
			back != c.want {
			t.Errorf("%s: %v, and %v the other way round", c.what, got, back)
		}
		// Irrelevant fields make no difference.
		for _, d := range []*Document{&c.a, &c.b} {
			s := c.rule.Relevant(d.Signature())
			d.Shingles, d.Tokens = s.Shingles, s.Tokens
		}
		if got := c.rule.Matches(&c.a, &c.b); got != c.want {
			t.Errorf("%s: %v with the relevant fields only", c.what, got)
		}
	}
}

func TestRatioIsChecked(t *testing.T) {
	for ratio, want := range map[float64]error{-1: nil, 1: nil, 1.3: nil, math.Inf(1): nil,
		0: ErrRatio, 0.99: ErrRatio} {
		if err := (Rule{MaxLengthRatio: ratio}).Check(); !errors.Is(err, want) {
			t.Errorf("%g: %v", ratio, err)
		}
	}
	if err := (Rule{MaxLengthRatio: math.NaN()}).Check(); !errors.Is(err, ErrRatio) {
		t.Errorf("no number: %v", err)
	}
}

// near returns Shingles with some bits of others flipped, or none.
func near(rng *rand.Rand, s fingerprint.ShingleSignature) fingerprint.ShingleSignature {
	switch rng.IntN(20) {
	case 0:
		return fingerprint.ShingleSignature{}
	case 1:
		return fingerprint.ShingleSignature{rng.Uint64(), rng.Uint64(), rng.Uint64(), rng.Uint64()}
	}
	for range rng.IntN(90) {
		s[rng.IntN(4)] ^= 1 << rng.IntN(64)
	}
	return s
}

// TestMatchesByDefinition compares Matches with the documented formula in exact arithmetic.
func TestMatchesByDefinition(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	differing := func(a, b fingerprint.Signature) (d1, d2 int) {
		for bit := range 64 {
			d1 += int((a.Fingerprint ^ b.Fingerprint) >> bit & 1)
			for word := range 4 {
				d2 += int((a.Shingles[word] ^ b.Shingles[word]) >> bit & 1)
			}
		}
		return d1, d2
	}
	matching := 0
	for range 200_000 {
		rule := Default(rng.IntN(9)).With(rng.IntN(90)-5, rng.IntN(40)-5,
			[]float64{0, -1, 1.5, 2}[rng.IntN(4)])
		a := Document{Fingerprint: 1 << 60, Shingles: fingerprint.ShingleSignature{1, 2, 3, 4},
			Tokens: rng.IntN(300)}
		b := Document{Fingerprint: a.Fingerprint, Shingles: near(rng, a.Shingles),
			Tokens: a.Tokens + rng.IntN(40)}
		for range rng.IntN(10) {
			b.Fingerprint ^= 1 << rng.IntN(64)
		}
		if rng.IntN(4) == 0 {
			b.Tokens = 0
		}
		d1, d2 := differing(a.Signature(), b.Signature())
		want := d1 <= rule.MaxDistance
		shorter, longer := min(a.Tokens, b.Tokens), max(a.Tokens, b.Tokens)
		if rule.MaxShingleDistance >= 0 && a.Shingles != (fingerprint.ShingleSignature{}) &&
			b.Shingles != (fingerprint.ShingleSignature{}) {
			allowed := 420 * rule.MaxShingleDistance // in units of 1/420
			if longer > 0 && rule.ShortAllowance > 0 {
				allowed = max(min(allowed, 60*longer),
					3*(rule.MaxShingleDistance+rule.ShortAllowance)*(140-longer))
			}
			want = want && 420*(d1+d2) <= allowed
		}
		if rule.MaxLengthRatio >= 0 && shorter > 0 {
			want = want && 10*longer <= int(10*rule.MaxLengthRatio)*shorter
		}
		if got := rule.Matches(&a, &b); got != want {
			t.Fatalf("%+v: %+v and %+v: %v, distances %d and %d", rule, a, b, got, d1, d2)
		}
		if want {
			matching++
		}
	}
	if matching < 20_000 || matching > 180_000 {
		t.Errorf("%d of 200,000 pairs match: the test does not test much", matching)
	}
}

// TestRulesOut tests that a document that its Shingles rule out, before its length is read, does
// not match.
func TestRulesOut(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	length := func() int { return max(0, rng.IntN(400)-100) }
	out := 0
	for range 100_000 {
		rule := Rule{MaxShingleDistance: rng.IntN(90), MaxLengthRatio: -1,
			ShortAllowance: rng.IntN(40)}
		a := fingerprint.Signature{Shingles: fingerprint.ShingleSignature{1}, Tokens: length()}
		b := fingerprint.Signature{Shingles: near(rng, a.Shingles), Tokens: length()}
		distance := rng.IntN(9)
		if !rule.RulesOut(distance, b.Shingles, a) {
			continue
		}
		if out++; rule.Allows(distance, a, b) {
			t.Fatalf("%+v, %d bits: %+v and %+v match once the second length is known", rule,
				distance, a, b)
		}
	}
	if out < 10_000 {
		t.Errorf("%d of 100,000 are ruled out", out)
	}
}
