package index

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/internal/match"
	"github.com/neardup/neardup/internal/testgen"
	"github.com/neardup/neardup/internal/testseed"
)

// TestRuleOfTheOptions: what of package match an index goes by, and what it refuses. That
// verdicts and queries do is the model's to say.
func TestRuleOfTheOptions(t *testing.T) {
	ctx := t.Context()
	for _, c := range []struct {
		o    Options
		want match.Rule
	}{
		{Options{}, match.Rule{MaxDistance: 3, MaxShingleDistance: 16, MaxLengthRatio: 1.3}},
		{Options{MaxDistance: Exact, MaxShingleDistance: 5, MaxLengthRatio: 2}, match.Rule{MaxDistance: 0, MaxShingleDistance: 5, MaxLengthRatio: 2}},
		{Options{MaxDistance: 6, MaxShingleDistance: -1, MaxLengthRatio: -1}, match.Rule{MaxDistance: 6, MaxShingleDistance: -1, MaxLengthRatio: -1}},
	} {
		if got := openMem(t, c.o).rule(); got != c.want {
			t.Errorf("%+v: %+v, not %+v", c.o, got, c.want)
		}
	}
	for _, ratio := range []float64{0.5, math.NaN()} {
		if _, err := Open("other", &Options{FS: vfs.NewMem(), MaxLengthRatio: ratio}); !errors.Is(err, match.ErrRatio) {
			t.Errorf("open with %v: %v", ratio, err)
		}
	}
	x := openMem(t, Options{})
	for _, length := range []int{-1, match.MaxTokens + 1} {
		if err := x.Add(ctx, Document{Tokens: length}); !errors.Is(err, ErrTooLarge) {
			t.Errorf("length %d: %v", length, err)
		}
	}
}

// TestQueryIsCheckAndAdd: what is asked with a Signature is answered as CheckAndAdd would, whatever is not known of it.
func TestQueryIsCheckAndAdd(t *testing.T) {
	ctx, rng := t.Context(), rand.New(rand.NewPCG(testseed.Of(t), 9))
	x := openMem(t, Options{MaxShingleDistance: 4})
	near := func(f uint64) fingerprint.Fingerprint {
		return fingerprint.Fingerprint(testgen.Flip(rng, f, ^uint64(0), rng.IntN(5)))
	}
	seen := make(map[Status]int)
	for range 500 {
		d := Document{Fingerprint: near(0), Tokens: rng.IntN(3) * (100 + rng.IntN(60))}
		if rng.IntN(3) > 0 {
			d.Shingle = near(1 << 40)
		}
		matches, err := x.Query(ctx, Query{Signature: d.Signature()})
		if err != nil {
			t.Fatal(err)
		}
		v, err := x.CheckAndAdd(ctx, d)
		if err != nil {
			t.Fatal(err)
		}
		if seen[v.Status]++; (v.Status == Duplicate) != (len(matches) > 0) || len(matches) > 0 && matches[0].Document != v.Of.Document {
			t.Fatalf("%+v: %+v, and %+v", d, matches, v)
		}
	}
	if seen[New] < 20 || seen[Duplicate] < 20 {
		t.Error(seen)
	}
}

// TestWritesOfOtherShinglesDoNotWait: pages of one template, alike but for their
// Shingles, must not be checked one after the other.
func TestWritesOfOtherShinglesDoNotWait(t *testing.T) {
	r := match.Rule{MaxDistance: 3, MaxShingleDistance: 14, MaxLengthRatio: -1}
	at := func(shingle fingerprint.Fingerprint, key string) *pendingWrite {
		return newPendingWrite([]Document{{Fingerprint: 5, Shingle: shingle, Key: key}})
	}
	const far = ^fingerprint.Fingerprint(0)
	for _, test := range []struct {
		a, b  *pendingWrite
		waits bool
	}{
		{at(1, "a"), at(far, "b"), false},
		{at(1, "a"), at(far, "a"), true}, // of one key
		{at(1, "a"), at(3, "b"), true},
		{at(1, "a"), at(0, "b"), true},
	} {
		if got := test.a.conflictsWith(test.b, r); got != test.waits {
			t.Errorf("%+v on %+v: %v", test.a.signatures, test.b.signatures, got)
		}
	}
}
