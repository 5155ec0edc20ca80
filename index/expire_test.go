package index

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/internal/testing/testenv"
	"github.com/neardup/neardup/internal/testing/testhook"
	"golang.org/x/sync/errgroup"
)

// TestExpire draws clocks, documents with and without keys and records, recrawls and bounds, and
// checks every document. Documents over the bounds must be removed. If any are, documents within
// the last hundredth of the bounds are removed too.
func TestExpire(t *testing.T) {
	ctx, seed := context.Background(), testenv.Seed(t)
	expired, idle := 0, 0
	rounds := testenv.Number(15, 60, 60, 600)
	for round := range rounds {
		rng := rand.New(rand.NewPCG(seed, uint64(round)))
		x := openMem(t, Options{Durability: NoSync})
		var docs []Document
		now, total := int64(100_000), 0
		for range 40 {
			if now += rng.Int64N(40); rng.IntN(10) == 0 {
				now -= rng.Int64N(400) // the clock is read back, or was ahead
			}
			if rng.IntN(3) > 0 {
				some := make([]Document, 1+rng.IntN(30))
				for i := range some {
					some[i].Fingerprint = fingerprint.Fingerprint(rng.IntN(50)) << 30
					if round%3 > 0 && (round%3 == 1 || rng.IntN(2) == 0) {
						some[i].Scope = []string{"", "a"}[rng.IntN(2)]
						some[i].Key = []string{"", fmt.Sprint("page ", rng.IntN(200))}[rng.IntN(2)]
					}
				}
				some = lastOfKeys(some)
				addAt(t, x, some, time.Unix(now, 0).UTC())
				docs = append(slices.DeleteFunc(docs, func(d Document) bool {
					return d.Key != "" &&
						slices.ContainsFunc(some, func(s Document) bool { return s.Key == d.Key })
				}), some...) // with the IDs of the earlier versions, or new ones
				continue
			}
			x.opts.Now = func() time.Time { return time.Unix(now, 0).UTC() }
			e := Expiry{MaxAge: time.Duration(rng.IntN(4)*200) * time.Second,
				MaxDocuments: uint64(rng.IntN(3) * (1 + rng.IntN(200)))}
			_, overdue := x.overdue(e.MaxAge)
			n, err := x.Expire(ctx, e)
			must(t, err)
			before := len(docs)
			docs = expiredModel(docs, e, now, overdue)
			if n != before-len(docs) {
				t.Fatalf("seed %d, round %d: %+v: %d of %d expired, not %d", seed, round, e, n,
					before, before-len(docs))
			}
			checkTimes(t, x, docs)
			if again, err := x.Expire(ctx, e); again != 0 || err != nil {
				t.Fatalf("seed %d, round %d: %+v: %d expired at once after that: %v", seed,
					round, e, again, err)
			}
			if total += n; x.Stats().Expired != uint64(total) {
				t.Fatalf("seed %d, round %d: %d expired, and %+v", seed, round, total, x.Stats())
			}
			if n == 0 {
				idle++
			}
		}
		expired += total
	}
	if expired < 16*rounds || idle < rounds/3 {
		t.Errorf("%d documents expired, and nothing %d times", expired, idle)
	}
}

// lastOfKeys returns the last document of each key.
func lastOfKeys(docs []Document) (last []Document) {
	for i, d := range docs {
		if d.Key == "" ||
			!slices.ContainsFunc(docs[i+1:], func(l Document) bool { return l.Key == d.Key }) {
			last = append(last, d)
		}
	}
	return last
}

// expiredModel returns what Expire leaves. overdue says that it takes the last hundredth of MaxAge
// too, as it must where anything is over that, and may where something was: it does not know of
// each document that was replaced.
func expiredModel(docs []Document, e Expiry, now int64, overdue bool) []Document {
	age := e.MaxAge
	if overdue {
		age = age * 99 / 100
	}
	before := time.Unix(now, 0).Add(-age)
	left := slices.DeleteFunc(slices.Clone(docs), func(d Document) bool {
		return age > 0 && d.Added.Before(before)
	})
	slices.SortFunc(left,
		func(a, b Document) int {
			return cmp.Or(a.Added.Compare(b.Added), cmp.Compare(a.ID, b.ID))
		})
	if most := int(e.MaxDocuments); most > 0 && len(left) > most {
		left = left[len(left)-(most-most/100):]
	}
	return left
}

// TestDeletionsAtOnce removes the same documents concurrently by age, ID and number, while they
// are recrawled. Each document must be removed by one call.
func TestDeletionsAtOnce(t *testing.T) {
	ctx := context.Background()
	for round := range 5 {
		x := openMem(t, Options{Durability: NoSync})
		docs := make([]Document, 600)
		ids := make([]uint64, len(docs))
		for i := range docs {
			docs[i], ids[i] = Document{Fingerprint: fingerprint.Fingerprint(i%100) << 30},
				uint64(i+1)
			if i%3 > 0 {
				docs[i].Scope, docs[i].Key = "a", []string{"", fmt.Sprint("page ", i)}[i%3-1]
			}
		}
		addAt(t, x, docs, time.Unix(1000, 0))
		recrawled := slices.DeleteFunc(slices.Clone(docs),
			func(d Document) bool { return d.Key == "" || d.ID%2 == 0 })
		for i := range recrawled {
			recrawled[i].Shingles[0] = 1 // a changed page gets a new ID
		}
		x.opts.Now = func() time.Time { return time.Unix(3000, 0) }
		var removed atomic.Int64
		group := new(errgroup.Group)
		remove := func(do func() (int, error)) {
			group.Go(func() error {
				n, err := do()
				removed.Add(int64(n))
				return err
			})
		}
		group.Go(func() error {
			for i := range recrawled {
				if err := x.Add(ctx, recrawled[i:i+1]...); err != nil {
					return err
				}
			}
			return nil
		})
		for range 2 {
			remove(func() (int, error) { return x.DeleteIDs(ctx, ids...) })
			remove(func() (int, error) { return x.DeleteBefore(ctx, time.Unix(2000, 0)) })
			remove(func() (int, error) { return x.Expire(ctx, Expiry{MaxAge: 1500 * time.Second}) })
		}
		must(t, group.Wait())
		if least := len(docs) - len(recrawled); removed.Load() < int64(least) ||
			removed.Load() > int64(len(docs)) {
			t.Errorf("round %d: %d documents removed, not %d to %d", round, removed.Load(),
				least, len(docs))
		}
		checkTimes(t, x, recrawled)
	}
}

// TestExpireAgain tests that the next Expire removes the documents that an interrupted Expire or
// DeleteBefore left, also if nothing was added in between.
func TestExpireAgain(t *testing.T) {
	for round := range 20 {
		x := openMem(t, Options{Durability: NoSync})
		addAt(t, x, bareDocuments(make([]uint64, 300)), time.Unix(1000, 0))
		addAt(t, x, Strangers(300), time.Unix(1001, 0))
		x.opts.Now = func() time.Time { return time.Unix(5000, 0) }
		cut := testhook.NewCountdown(int64(round + 3))
		first, err := x.deleteBefore(cut, time.Unix(4000, 0), expireChunk)
		if first < 600 && err == nil {
			t.Fatalf("%d documents expired, and the rest did not, without an error", first)
		}
		rest, err := x.Expire(context.Background(), Expiry{MaxAge: 1000 * time.Second})
		if err != nil || first+rest != 600 {
			t.Errorf("cut short after %d documents: %d more, %v", first, rest, err)
		}
	}
}

// TestConcurrentExpiresKeepTheBound tests that concurrent calls of Expire do not remove more
// documents than one call.
func TestConcurrentExpiresKeepTheBound(t *testing.T) {
	for range 20 {
		x := openMem(t, Options{Durability: NoSync})
		addAt(t, x, Strangers(300), time.Unix(1000, 0))
		var removed atomic.Int64
		var calls errgroup.Group
		for range 4 {
			calls.Go(func() error {
				n, err := x.Expire(context.Background(), Expiry{MaxDocuments: 50})
				removed.Add(int64(n))
				return err
			})
		}
		must(t, calls.Wait())
		if n := x.Stats().Documents; n != 50 || removed.Load() != 250 {
			t.Fatalf("%d documents remain of 300, and %d were removed; want 50 and 250", n,
				removed.Load())
		}
	}
}

// TestExpireDuringDeletions deletes documents while Expire reads the records. Expire must then
// remove fewer documents, and the oldest ones.
func TestExpireDuringDeletions(t *testing.T) {
	const pass = 1000 // records that one pass reads
	for _, c := range []struct {
		after   int // records that Expire has read
		deletes int // of the 200 oldest documents
		left    uint64
	}{
		{after: 0, deletes: 0, left: 891},
		{after: 1, deletes: 50, left: 891},
		{after: 1, deletes: 120, left: 880},
		{after: pass + 1, deletes: 50, left: 891},
		{after: pass + 1, deletes: 105, left: 891},
		{after: 3*pass + 1, deletes: 50, left: 891},
		{after: 3*pass + 1, deletes: 200, left: 800},
	} {
		x := openMem(t, Options{Durability: NoSync})
		docs := Strangers(pass)
		young, old := docs[:800], docs[800:]
		addAt(t, x, young, time.Unix(2000, 0))
		addAt(t, x, old, time.Unix(1000, 0))
		calls := 0
		ctx := WhenAsked{context.Background(), func() {
			if calls++; calls == c.after {
				for i := range c.deletes {
					n, err := x.Delete(context.Background(), old[i].Key)
					if err != nil || n != 1 {
						t.Error(n, err)
					}
				}
			}
		}}
		n, err := x.deleteOldest(ctx, 900)
		must(t, err)
		if got := x.Stats().Documents; got != c.left || n != pass-c.deletes-int(c.left) {
			t.Errorf("%d deletions after %d records: %d documents are left, not %d, and %d expired",
				c.deletes, c.after, got, c.left, n)
		}
		for d, err := range x.Documents(context.Background()) {
			must(t, err)
			if d.ID <= 800 {
				young = young[1:]
			}
		}
		if len(young) > 0 {
			t.Errorf("%d deletions after %d records: %d young documents were removed", c.deletes,
				c.after, len(young))
		}
	}
}

// TestCloseEndsExpire tests that Close does not wait until all documents are removed.
func TestCloseEndsExpire(t *testing.T) {
	fs := vfs.NewMem()
	x := openMem(t, Options{FS: fs, Durability: NoSync})
	addAt(t, x, Strangers(300), time.Unix(1000, 0))
	closing := make(chan error, 1)
	begin := sync.OnceFunc(func() { go func() { closing <- x.Close() }() })
	x.opts.Now = func() time.Time { // Expire reads the clock with the commit lock held
		begin()
		<-x.stopping.Done()
		time.Sleep(10 * time.Millisecond) // for the context of Expire to end
		return time.Unix(5000, 0)
	}
	if n, err := x.Expire(context.Background(), Expiry{MaxAge: time.Second}); !errors.Is(err,
		ErrClosed) || n == 300 {
		t.Errorf("Expire removed %d documents and ended with %v", n, err)
	}
	must(t, <-closing)
}

// TestExpireReadsRecordsOnce tests that Expire reads the records after Open, and again only once
// a document may be too old.
func TestExpireReadsRecordsOnce(t *testing.T) {
	now := time.Unix(1000, 0)
	x := openMem(t, Options{Durability: NoSync, Now: func() time.Time { return now }})
	must(t, x.Add(t.Context(), Document{}, Document{Fingerprint: 1}))
	for i, age := range []int64{10, 20, 100, 101} {
		now = time.Unix(1000+age, 0)
		_, reads := x.overdue(100 * time.Second)
		n, err := x.Expire(t.Context(), Expiry{MaxAge: 100 * time.Second})
		if want := i == 0 || age > 100; err != nil || reads != want || (n == 2) != (age > 100) {
			t.Errorf("after %d s: records are read %t, not %t, and %d expired: %v", age,
				reads, want, n, err)
		}
	}
}
