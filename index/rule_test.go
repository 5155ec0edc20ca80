package index

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/internal/match"
	"github.com/neardup/neardup/internal/testhook"
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
		if _, err := Open("other", &Options{FS: vfs.NewMem(), MaxLengthRatio: ratio}); !errors.Is(err, ErrRatio) {
			t.Errorf("open with %v: %v", ratio, err)
		}
	}
	x := openMem(t, Options{})
	for _, length := range []int{-1, MaxTokens + 1} {
		if err := x.Add(ctx, Document{Tokens: length}); !errors.Is(err, ErrTooLarge) {
			t.Errorf("length %d: %v", length, err)
		}
	}
	for _, c := range []struct {
		shingle  fingerprint.Fingerprint
		distance int
		both     bool
	}{{1, 0, false}, {3, 1, true}, {0, 0, false}} { // the first is new
		v, err := x.CheckAndAdd(ctx, Document{Shingle: c.shingle})
		if distance, both := v.ShingleDistance(); distance != c.distance || both != c.both || err != nil {
			t.Errorf("%+v: distance %d, %v: %v", v, distance, both, err)
		}
	}
}

// TestQueryIsCheckAndAdd: what is asked with a Signature is answered as CheckAndAdd would, whatever is not known of it.
func TestQueryIsCheckAndAdd(t *testing.T) {
	ctx, rng := t.Context(), rand.New(rand.NewPCG(testseed.Of(t), 9))
	x := openMem(t, Options{MaxShingleDistance: 4})
	bits := func(n int) fingerprint.Fingerprint { // at most n of them
		var f fingerprint.Fingerprint
		for range rng.IntN(n + 1) {
			f ^= 1 << rng.IntN(64)
		}
		return f
	}
	seen := make(map[Status]int)
	for i := range 500 {
		d := Document{Fingerprint: bits(4), Tokens: rng.IntN(3) * (100 + rng.IntN(60))}
		if rng.IntN(3) > 0 {
			d.Shingle = 1<<40 ^ bits(4)
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
			t.Fatalf("%d, %+v: %+v, and %+v", i, d, matches, v)
		}
	}
	if seen[New] < 20 || seen[Duplicate] < 20 {
		t.Error(seen)
	}
}

// TestQueryBatchIsOfItsOwn: each query of a batch has its own Shingle, length, scope, distance
// and limit.
func TestQueryBatchIsOfItsOwn(t *testing.T) {
	ctx := context.Background()
	x := openMem(t, Options{MaxShingleDistance: 1, MaxLengthRatio: 1})
	const n = 300
	var queries []Query
	for i := range n {
		d := Document{Fingerprint: 9}
		q := Query{Signature: nearTo(9).Signature}
		switch i % 3 {
		case 0:
			d.Shingle = fingerprint.Fingerprint(uint64(i+1) * 0x9e3779b97f4a7c15)
			d.Tokens = 1_000_000
			q.Shingle = d.Shingle
		case 1:
			d.Shingle, d.Tokens = 1, i
			q.Tokens = d.Tokens
		case 2:
			d.Scope = fmt.Sprint(i)
			q.Scope, q.Limit, q.MaxDistance = d.Scope, i%2, Exact
			q.Fingerprint ^= fingerprint.Fingerprint(i / 3 % 2)
		}
		if err := x.Add(ctx, d); err != nil {
			t.Fatal(err)
		}
		queries = append(queries, q)
	}
	for _, sorts := range []bool{false, true} {
		answers := 0
		for a, err := range x.QueryBatch(testhook.WithSortedBatches(ctx, sorts), queries) {
			if err != nil {
				t.Fatal(err)
			}
			want := 1
			if a.Query%3 == 2 && a.Query/3%2 == 1 {
				want = 0
			}
			if answers++; len(a.Matches) != want || want == 1 && a.Matches[0].ID != uint64(a.Query+1) {
				t.Fatalf("sorted is %v: query %d: %+v", sorts, a.Query, a.Matches)
			}
		}
		if answers != n {
			t.Errorf("%d answers", answers)
		}
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
