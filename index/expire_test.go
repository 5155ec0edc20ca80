package index

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/internal/testseed"
)

// TestWrongClock: what came while the clock was ahead has that time, and nothing else. It
// stays until then; all others expire by their own age, and come with their own time.
func TestWrongClock(t *testing.T) {
	ctx := context.Background()
	fs := vfs.NewMem()
	x := openMem(t, Options{FS: fs})
	day := func(n int) time.Time { return time.Date(2026, 1, n, 0, 0, 0, 0, time.UTC) }
	ahead := time.Date(2040, 1, 1, 0, 0, 0, 0, time.UTC)
	var docs []Document
	for i, at := range []time.Time{day(1), day(2), ahead, day(3), day(2), ahead, day(5)} {
		some := []Document{
			{Key: fmt.Sprint("page ", i), Fingerprint: fingerprint.Fingerprint(i) << 40},
			{Fingerprint: 7 << 50}, // bare, all of one fingerprint
			{Fingerprint: fingerprint.Fingerprint(i) << 20},
		}
		addAt(t, x, some, at)
		docs = append(docs, some...)
		if i == 3 { // the clock is read back
			if err := x.Close(); err != nil {
				t.Fatal(err)
			}
			x = openMem(t, Options{FS: fs})
		}
	}
	checkTimes(t, x, docs)
	for _, before := range []time.Time{day(1), day(2), day(3), day(5), day(30), ahead, ahead.Add(time.Second)} {
		kept := slices.DeleteFunc(slices.Clone(docs), func(d Document) bool { return d.Added.Before(before) })
		n, err := x.DeleteBefore(ctx, before)
		if n != len(docs)-len(kept) || err != nil {
			t.Fatalf("before %v: %d expired, not %d: %v", before, n, len(docs)-len(kept), err)
		}
		docs = kept
		checkTimes(t, x, docs)
		checkVerified(t, x)
	}
	more := []Document{{Key: "later"}}
	addAt(t, x, more, day(5)) // the second of the newest entry, which is still there
	checkTimes(t, x, more)
}

// TestClockOfOneSecond has an index of 1970, and one whose every document goes but none of
// its clock's seconds is due: entries are written when they must be and not otherwise.
func TestClockOfOneSecond(t *testing.T) {
	x := openMem(t, Options{})
	at := func(seconds ...int64) {
		t.Helper()
		v, _, err := x.snapshot()
		if err != nil {
			t.Fatal(err)
		}
		defer v.Close()
		var got []int64
		for c, err := range v.Clock() {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, c.Added().Unix())
		}
		if !slices.Equal(got, seconds) {
			t.Errorf("the clock has the seconds %v, not %v", got, seconds)
		}
	}
	at()
	for i, second := range []int64{0, 0, 50, 50, 20, 20} {
		addAt(t, x, bareDocuments([]uint64{uint64(i)}), time.Unix(second, 0))
	}
	at(0, 50, 20)
	if _, err := x.DeleteIDs(t.Context(), 1, 2, 3, 4, 5, 6); err != nil {
		t.Fatal(err)
	}
	at(0, 50, 20)
	if _, err := x.DeleteBefore(t.Context(), time.Unix(100, 0)); err != nil {
		t.Fatal(err)
	}
	at(0, 20) // the first of what has expired, and the newest
	checkVerified(t, x)
}

// TestExpiryUnderAnyClock draws clocks and times, and looks at every document.
func TestExpiryUnderAnyClock(t *testing.T) {
	ctx, seed := context.Background(), testseed.Of(t)
	for round := range 20 {
		rng := rand.New(rand.NewPCG(seed, uint64(round)))
		x := openMem(t, Options{Durability: NoSync})
		var docs []Document
		for step := range 60 {
			if rng.IntN(4) > 0 {
				some := make([]Document, 1+rng.IntN(4))
				for i := range some {
					some[i].Fingerprint = fingerprint.Fingerprint(rng.IntN(3)) << 30
					if rng.IntN(2) == 0 {
						some[i].Key = fmt.Sprint(step, " ", i)
					}
				}
				addAt(t, x, some, time.Unix(int64(rng.IntN(12)), 0).UTC())
				docs = append(docs, some...)
				continue
			}
			before := time.Unix(int64(rng.IntN(14)), 0)
			kept := slices.DeleteFunc(slices.Clone(docs), func(d Document) bool { return d.Added.Before(before) })
			if n, err := x.DeleteBefore(ctx, before); n != len(docs)-len(kept) || err != nil {
				t.Fatalf("seed %d, round %d: %d expired, not %d: %v", seed, round, n, len(docs)-len(kept), err)
			}
			docs = kept
			checkTimes(t, x, docs)
		}
		checkVerified(t, x)
	}
}
