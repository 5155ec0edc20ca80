package compare

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/match"
	"github.com/neardup/neardup/internal/testing/testenv"
)

var rule = match.Rule{MaxDistance: 4, MaxShingleDistance: 12, MaxLengthRatio: 1.3}

// flipped inverts some of few bits of a fingerprint, so that many results are near each other.
func flipped(rng *rand.Rand, f fingerprint.Fingerprint) fingerprint.Fingerprint {
	return f ^ fingerprint.Fingerprint(rng.Uint64()&rng.Uint64()&rng.Uint64())&0xffffff
}

// TestPairsOfSample compares the pairs of a sample with a comparison of all pairs. The named
// pairs must be the nearest to the limits on their side, and no document may be in two of them.
func TestPairsOfSample(t *testing.T) {
	rng := rand.New(rand.NewPCG(testenv.Seed(t), 5))
	s := NewSample()
	var docs []index.Document
	for i := range 400 {
		d := index.Document{Key: fmt.Sprint(i), Fingerprint: flipped(rng, 1<<60),
			Shingles: fingerprint.ShingleSignature{2: uint64(flipped(rng, 1<<61))},
			Tokens:   100 + rng.IntN(40), Scope: fmt.Sprint(rng.IntN(2))}
		docs = append(docs, d, d) // equal documents count once
		s.Add(&d, "a", int64(i))
		s.Add(&d, "a", int64(i))
	}
	const most = 8
	got, err := s.Pairs(context.Background(), rule, most)
	if err != nil || got.Cut || got.Seen != 800 || got.Documents != 400 {
		t.Fatalf("%v: %d of %d, cut %v", err, got.Documents, got.Seen, got.Cut)
	}
	matches, misses := make([]int64, 4+Reach+1), make([]int64, 4+Reach+1)
	inside, outside := 0.0, 1e9
	for i := 0; i < len(docs); i += 2 {
		for j := i + 2; j < len(docs); j += 2 {
			a, b := &docs[i], &docs[j]
			distance := a.Fingerprint.Distance(b.Fingerprint)
			if a.Scope != b.Scope || distance > 4+Reach {
				continue
			}
			share, _ := Documents(Of(a), Of(b), rule, 0).Nearness()
			if rule.Matches(a, b) {
				matches[distance]++
				inside = max(inside, share)
			} else {
				misses[distance]++
				outside = min(outside, share)
			}
		}
	}
	if !slices.Equal(got.Match, matches) || !slices.Equal(got.Miss, misses) ||
		len(got.Inside) != most || len(got.Outside) != most {
		t.Fatalf("%v and %v, want %v and %v; %d and %d named", got.Match, got.Miss, matches, misses,
			len(got.Inside), len(got.Outside))
	}
	if got.Inside[0].share != inside || got.Outside[0].share != outside ||
		inside > 1 || outside <= 1 {
		t.Errorf("the nearest are %v and %v, want %v and %v", got.Inside[0].share,
			got.Outside[0].share, inside, outside)
	}
	for _, pairs := range [][]Pair{got.Inside, got.Outside} {
		seen := make(map[string]bool)
		for _, p := range pairs {
			if seen[p.A.Key] || seen[p.B.Key] {
				t.Errorf("%s or %s is there twice", p.A.Key, p.B.Key)
			}
			seen[p.A.Key], seen[p.B.Key] = true, true
		}
	}
}

// TestSampleIsBounded tests that a sample keeps the same number of documents for any input. Early
// and late documents must be equally likely, and keys must be short.
func TestSampleIsBounded(t *testing.T) {
	s := NewSample()
	key := string(make([]byte, 10*MaxKeyShown))
	const n = 4 * MaxSample
	for i := range n {
		s.Add(&index.Document{Key: key, Fingerprint: fingerprint.Fingerprint(i)}, "", int64(i))
	}
	late := 0
	for _, d := range s.kept {
		if len(d.Key) > MaxKeyShown+3 {
			t.Fatalf("a key of %d bytes", len(d.Key))
		}
		if d.Number >= n/2 {
			late++
		}
	}
	if len(s.kept) != MaxSample || late < MaxSample*45/100 || late > MaxSample*55/100 {
		t.Errorf("%d kept, %d of the second half", len(s.kept), late)
	}
	p, err := s.Pairs(context.Background(), match.Rule{MaxDistance: 16, MaxShingleDistance: -1,
		MaxLengthRatio: -1}, 3)
	if err != nil || !p.Cut {
		t.Errorf("%v, cut: %v: all are near each other", err, p.Cut)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := s.Pairs(ctx, rule, 3); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
}

// TestNearness tests that nearness is at most 1 if two documents match and larger if they do not.
// It must name the limit.
func TestNearness(t *testing.T) {
	rng := rand.New(rand.NewPCG(testenv.Seed(t), 6))
	for _, rule := range []match.Rule{rule, {MaxDistance: 0, MaxShingleDistance: 0,
		MaxLengthRatio: 1.3}, {MaxDistance: 3, MaxShingleDistance: -1, MaxLengthRatio: -1},
		match.Default(6)} {
		for range 5000 {
			a := &Document{Fingerprint: flipped(rng, 0),
				Shingles: fingerprint.ShingleSignature{2: uint64(flipped(rng, 1<<60))},
				Tokens:   50 + rng.IntN(30)}
			b := &Document{Fingerprint: flipped(rng, 0),
				Shingles: fingerprint.ShingleSignature{2: uint64(flipped(rng, 1<<60))},
				Tokens:   50 + rng.IntN(30)}
			if rng.IntN(2) == 0 {
				b.Fingerprint, b.Shingles = a.Fingerprint, a.Shingles
			}
			r := Documents(a, b, rule, 0)
			share, by := r.Nearness()
			if r.Match != (share <= 1) || !r.Match && !slices.Contains(r.Decided, by) {
				t.Fatalf("%+v by %+v: %v by %s", r, rule, share, by)
			}
		}
	}
}
