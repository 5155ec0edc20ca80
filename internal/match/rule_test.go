package match

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/neardup/neardup/fingerprint"
)

func TestRatioIsChecked(t *testing.T) {
	for ratio, want := range map[float64]error{-1: nil, 1: nil, 1.3: nil, math.Inf(1): nil,
		0: ErrRatio, 0.99: ErrRatio} {
		if err := (Rule{MaxLengthRatio: ratio}).Check(); !errors.Is(err, want) {
			t.Errorf("%g: %v", ratio, err)
		}
	}
	if err := (Rule{MaxLengthRatio: math.NaN()}).Check(); !errors.Is(err, ErrRatio) {
		t.Errorf("NaN: %v", err)
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

// TestMatchesByDefinition tests Matches against the documented formula in exact arithmetic. The
// order of the documents, their keys and the fields that Relevant drops must make no difference.
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
		if rng.IntN(10) == 0 {
			b.Scope = "s"
		}
		b.Key = []string{"", "key"}[rng.IntN(2)]
		d1, d2 := differing(a.Signature(), b.Signature())
		want := d1 <= rule.MaxDistance && a.Scope == b.Scope
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
		got, back := rule.Matches(&a, &b), rule.Matches(&b, &a)
		for _, d := range []*Document{&a, &b} {
			s := rule.Relevant(d.Signature())
			d.Shingles, d.Tokens = s.Shingles, s.Tokens
		}
		if relevant := rule.Matches(&a, &b); got != want || back != want || relevant != want {
			t.Fatalf("%+v: %+v and %+v: %v, %v the other way round, %v with the relevant fields "+
				"only; distances %d and %d", rule, a, b, got, back, relevant, d1, d2)
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
