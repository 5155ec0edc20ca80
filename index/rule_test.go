package index

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/neardup/neardup/fingerprint"
)

// TestShingleLimit: a match needs the Shingles, where both documents have one, within
// the limit as well, for verdicts and for queries that bring a Shingle.
func TestShingleLimit(t *testing.T) {
	ctx := context.Background()
	const none = 0
	within := func(n int) fingerprint.Fingerprint { return fingerprint.Fingerprint(1<<n-1)<<40 | 1 } // n bits from 1
	for _, test := range []struct {
		option  int
		shingle fingerprint.Fingerprint
		match   bool
	}{
		{0, within(14), true}, {0, within(15), false}, {0, none, true},
		{5, within(5), true}, {5, within(6), false},
		{-1, ^fingerprint.Fingerprint(0), true},
	} {
		x := openMem(t, Options{MaxShingleDistance: test.option})
		if err := x.Add(ctx, Document{Fingerprint: 1, Shingle: 1}); err != nil {
			t.Fatal(err)
		}
		matches, err := x.Query(ctx, 1, Shingle(test.shingle))
		if err != nil || (len(matches) == 1) != test.match {
			t.Errorf("limit %d, shingle %v: %v, %v", test.option, test.shingle, matches, err)
		}
		v, err := x.CheckAndAdd(ctx, Document{Fingerprint: 1, Shingle: test.shingle})
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
		if all, err := x.Query(ctx, 1); err != nil || len(all) != stored {
			t.Errorf("without a Shingle: %v, %v", all, err)
		}
	}
}

// TestQueryBatchWithShingles: each query has its own.
func TestQueryBatchWithShingles(t *testing.T) {
	ctx := context.Background()
	x := openMem(t, Options{})
	const n = 500
	var fps, shingles []fingerprint.Fingerprint
	for i := range n {
		d := Document{Fingerprint: 9, Shingle: fingerprint.Fingerprint(i + 1)}
		if err := x.Add(ctx, d); err != nil {
			t.Fatal(err)
		}
		fps, shingles = append(fps, 9), append(shingles, d.Shingle)
	}
	answers := 0
	for a, err := range x.QueryBatch(ctx, fps, Shingles(shingles), MaxShingleDistance(0)) {
		if err != nil {
			t.Fatal(err)
		}
		if answers++; len(a.Matches) != 1 || a.Matches[0].Shingle != shingles[a.Query] {
			t.Fatalf("query %d: %+v", a.Query, a.Matches)
		}
	}
	if answers != n {
		t.Errorf("%d answers", answers)
	}
	for _, err := range x.QueryBatch(ctx, fps, Shingles(shingles[1:])) {
		if err == nil {
			t.Error("499 Shingles are enough for 500 fingerprints")
		}
	}
	if _, err := x.Query(ctx, 9, Shingles(shingles)); err == nil {
		t.Error("Query takes the option Shingles")
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
				Shingle: fingerprint.Fingerprint(flip(rng, center, ^uint64(0), rng.IntN(4))),
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

// TestFlightsOfOtherShinglesDoNotWait: pages of one template, alike but for their
// Shingles, must not be checked one after the other.
func TestFlightsOfOtherShinglesDoNotWait(t *testing.T) {
	r := rule{3, 14}
	at := func(shingle fingerprint.Fingerprint, key string) *flight {
		return newFlight([]Document{{Fingerprint: 5, Shingle: shingle, Key: key}})
	}
	const far = ^fingerprint.Fingerprint(0)
	for _, test := range []struct {
		a, b  *flight
		waits bool
	}{
		{at(1, "a"), at(far, "b"), false},
		{at(1, "a"), at(far, "a"), true}, // of one key
		{at(1, "a"), at(3, "b"), true},
		{at(1, "a"), at(0, "b"), true},
	} {
		if got := test.a.bearsOn(test.b, r); got != test.waits {
			t.Errorf("%+v on %+v: %v", test.a.prints, test.b.prints, got)
		}
	}
}
