package index

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index/join"
	"github.com/neardup/neardup/index/match"
	"github.com/neardup/neardup/internal/testgen"
	"github.com/neardup/neardup/internal/testhook"
)

// TestShingleLimit: a match needs the Shingles, where both documents have one, within
// the limit, less the distance of the fingerprints, for verdicts and for queries that bring
// a Shingle.
func TestShingleLimit(t *testing.T) {
	ctx := context.Background()
	const none = 0
	within := func(n int) fingerprint.Fingerprint { return fingerprint.Fingerprint(1<<n-1)<<40 | 1 } // n bits from 1
	for _, test := range []struct {
		option   int
		distance int // of the fingerprints
		shingle  fingerprint.Fingerprint
		match    bool
	}{
		{0, 0, within(16), true}, {0, 0, within(17), false}, {0, 0, none, true},
		{0, 3, within(13), true}, {0, 3, within(14), false}, {0, 3, none, true},
		{5, 0, within(5), true}, {5, 0, within(6), false}, {5, 2, within(3), true}, {5, 2, within(4), false},
		{-1, 3, ^fingerprint.Fingerprint(0), true},
	} {
		fp := fingerprint.Fingerprint(1)<<test.distance - 1
		x := openMem(t, Options{MaxShingleDistance: test.option})
		if err := x.Add(ctx, Document{Shingle: 1}); err != nil {
			t.Fatal(err)
		}
		matches, err := x.Query(ctx, Query{Signature: fingerprint.Signature{Fingerprint: fp, Shingle: test.shingle}})
		if err != nil || (len(matches) == 1) != test.match {
			t.Errorf("limit %d, shingle %v: %v, %v", test.option, test.shingle, matches, err)
		}
		v, err := x.CheckAndAdd(ctx, Document{Fingerprint: fp, Shingle: test.shingle})
		if err != nil || (v.Status == Duplicate) != test.match {
			t.Errorf("limit %d, shingle %v: %+v, %v", test.option, test.shingle, v, err)
		}
		distance, both := v.ShingleDistance()
		if want := test.match && test.shingle != none; both != want || both && distance != test.shingle.Distance(1) {
			t.Errorf("distance %d, %v of %+v", distance, both, v)
		}
		stored := 2 // and a query without a Shingle finds all
		if test.match {
			stored = 1
		}
		if all, err := x.Query(ctx, nearTo(fp)); err != nil || len(all) != stored {
			t.Errorf("without a Shingle: %v, %v", all, err)
		}
	}
}

// TestLengthRatio: a match needs the lengths, where both are known, within the ratio.
func TestLengthRatio(t *testing.T) {
	ctx := context.Background()
	for _, test := range []struct {
		option float64
		length int
		match  bool
	}{
		{0, 1300, true}, {0, 1301, false}, {0, 770, true}, {0, 769, false}, {0, 0, true}, {0, 1, false},
		{1, 1000, true}, {1, 1001, false}, {1, 999, false},
		{2, 2000, true}, {2, 500, true}, {2, 2001, false}, {2, 499, false},
		{-1, 1, true}, {-1, MaxTokens, true},
	} {
		x := openMem(t, Options{MaxLengthRatio: test.option})
		if err := x.Add(ctx, Document{Tokens: 1000}); err != nil {
			t.Fatal(err)
		}
		matches, err := x.Query(ctx, Query{Signature: fingerprint.Signature{Tokens: test.length}})
		if err != nil || (len(matches) == 1) != test.match {
			t.Errorf("ratio %v, length %d: %v, %v", test.option, test.length, matches, err)
		}
		v, err := x.CheckAndAdd(ctx, Document{Tokens: test.length})
		if err != nil || (v.Status == Duplicate) != test.match {
			t.Errorf("ratio %v, length %d: %+v, %v", test.option, test.length, v, err)
		}
	}
	x := openMem(t, Options{})
	for _, ratio := range []float64{0.5, math.NaN()} {
		if _, err := Open("other", &Options{FS: vfs.NewMem(), MaxLengthRatio: ratio}); !errors.Is(err, ErrRatio) {
			t.Errorf("open with %v: %v", ratio, err)
		}
		for _, err := range x.Pairs(ctx, join.Options{MaxLengthRatio: ratio}) {
			if !errors.Is(err, ErrRatio) {
				t.Errorf("pairs with %v: %v", ratio, err)
			}
		}
	}
	for _, length := range []int{-1, MaxTokens + 1} {
		if err := x.Add(ctx, Document{Tokens: length}); !errors.Is(err, ErrTooLarge) {
			t.Errorf("length %d: %v", length, err)
		}
	}
}

// TestQueryIsCheckAndAdd: a query with a Signature is answered as CheckAndAdd would, alone and in a
// batch; one with a bare fingerprint, by k alone.
func TestQueryIsCheckAndAdd(t *testing.T) {
	ctx, rng := context.Background(), rand.New(rand.NewPCG(4, 4))
	x := openMem(t, Options{MaxDistance: 4})
	flip := func(f fingerprint.Fingerprint, n int) fingerprint.Fingerprint {
		for range n {
			f ^= 1 << rng.IntN(64)
		}
		return f
	}
	var docs, stored []Document
	found := make(map[bool]int)
	for i := range 600 {
		d := Document{Key: fmt.Sprint(i), Fingerprint: fingerprint.Fingerprint(rng.Uint64()), Shingle: fingerprint.Fingerprint(rng.Uint64()), Tokens: 1 + rng.IntN(2000)}
		if i > 0 && i%3 > 0 {
			near := docs[rng.IntN(i)]
			d.Fingerprint, d.Shingle, d.Tokens = flip(near.Fingerprint, rng.IntN(5)), flip(near.Shingle, rng.IntN(20)), near.Tokens*(8+rng.IntN(6))/10
		}
		docs = append(docs, d)
		matches, err := x.Query(ctx, Query{Signature: d.Signature(), Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		for a, err := range x.QueryBatch(ctx, []Query{{Signature: d.Signature(), Limit: 1}}) {
			if err != nil || fmt.Sprint(a.Matches) != fmt.Sprint(matches) {
				t.Fatalf("%v in a batch, %v alone, %v", a.Matches, matches, err)
			}
		}
		within := 0
		for _, s := range stored {
			if s.Fingerprint.Distance(d.Fingerprint) <= 4 {
				within++
			}
		}
		if bare, err := x.Query(ctx, nearTo(d.Fingerprint)); err != nil || len(bare) != within {
			t.Fatalf("%d within k of the bare fingerprint, want %d, %v", len(bare), within, err)
		}
		v, err := x.CheckAndAdd(ctx, d)
		if err != nil || (v.Status == Duplicate) != (len(matches) == 1) || len(matches) == 1 && v.Of != matches[0] {
			t.Fatalf("%+v of what a query answers with %+v, %v", v, matches, err)
		}
		if v.Status == New {
			stored = append(stored, d)
		}
		found[len(matches) == within]++
	}
	if found[true] < 100 || found[false] < 100 {
		t.Errorf("the rule decided in %d of %d cases", found[false], len(docs))
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

// TestRacingByShingle: of racing documents with one fingerprint, those with Shingles
// far apart are all new, and of each group with near ones exactly one is.
func TestRacingByShingle(t *testing.T) {
	const groups, each = 40, 12
	x := openMem(t, Options{Durability: NoSync})
	rng := rand.New(rand.NewPCG(8, 8))
	var docs []Document
	for g := range groups {
		center := rng.Uint64() // 32 bits from the others, more or less
		for i := range each {
			docs = append(docs, Document{
				Key: fmt.Sprint(g, " ", i), Fingerprint: 77,
				Shingle: fingerprint.Fingerprint(testgen.Flip(rng, center, ^uint64(0), rng.IntN(4))),
			})
		}
	}
	for i, a := range docs {
		for j, b := range docs[:i] {
			if near := a.Shingle.Distance(b.Shingle) <= DefaultMaxShingleDistance; near != (i/each == j/each) {
				t.Fatalf("documents %d and %d are %d apart: take another seed", i, j, a.Shingle.Distance(b.Shingle))
			}
		}
	}
	order := rng.Perm(len(docs))
	fresh := make([]int, groups)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for worker := range 16 {
		wg.Go(func() {
			for at := worker; at < len(order); at += 16 {
				v, err := x.CheckAndAdd(context.Background(), docs[order[at]])
				if err != nil {
					t.Error(err)
					return
				}
				if v.Status == New {
					mu.Lock()
					fresh[order[at]/each]++
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	for g, n := range fresh {
		if n != 1 {
			t.Errorf("%d of group %d are new", n, g)
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
