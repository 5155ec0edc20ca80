package index_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/testing/indextest"
	"github.com/neardup/neardup/internal/testing/testenv"
	"github.com/neardup/neardup/internal/testing/testhook"
	"golang.org/x/sync/errgroup"
)

// TestExpire compares an index with the model for random times, recrawls and bounds. Some indexes
// begin with documents without a record, which do not expire.
func TestExpire(t *testing.T) {
	seed := testenv.Seed(t)
	expired, idle := 0, 0
	rounds := testenv.Number(15, 60, 60, 600)
	for round := range rounds {
		rng := rand.New(rand.NewPCG(seed, uint64(round)))
		now := time.Unix(100_000, 0).UTC()
		bare := make([]index.Document, round%3*10)
		m := openModelled(t, index.Options{FS: loaded(t, bare),
			Now: func() time.Time { return now }})
		m.Model.Add(bare...)
		total := 0
		for range 40 {
			now = now.Add(time.Duration(rng.IntN(40)) * time.Second)
			if rng.IntN(10) == 0 { // the clock is set back
				now = now.Add(-time.Duration(rng.IntN(400)) * time.Second)
			}
			if rng.IntN(3) > 0 {
				docs := make([]index.Document, 1+rng.IntN(30))
				for i := range docs {
					docs[i].Fingerprint = fingerprint.Fingerprint(rng.IntN(50)) << 30
					docs[i].Key = []string{"", fmt.Sprint("page ", rng.IntN(200))}[rng.IntN(2)]
				}
				m.add(t, docs...)
				continue
			}
			e := index.Expiry{MaxAge: time.Duration(rng.IntN(4)*200) * time.Second,
				MaxDocuments: uint64(rng.IntN(3) * (1 + rng.IntN(200)))}
			n, err := m.Expire(t.Context(), e)
			must(t, err)
			before := len(m.Docs)
			m.Docs = expiredModel(m.Docs, e, now, n)
			again, err := m.Expire(t.Context(), e)
			total += n
			if err := cmp.Or(err, m.Compare(m.Index)); err != nil || n != before-len(m.Docs) ||
				again != 0 || m.Stats().Expired != uint64(total) {
				t.Fatalf("seed %d, round %d, %+v: %d of %d expired, and then %d; %d in all: %v",
					seed, round, e, n, before, again, m.Stats().Expired, err)
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

// expiredModel returns the documents that Expire leaves. If a document is older than MaxAge, Expire
// removes all documents older than 99 % of MaxAge. It may also do this if such a document was
// replaced, which the number of removed documents shows.
func expiredModel(
	docs indextest.Documents, e index.Expiry, now time.Time, removed int,
) indextest.Documents {
	within := func(age time.Duration) indextest.Documents {
		left := docs.Without(func(d *index.Document) bool {
			return age > 0 && !indextest.Bare(d) && d.Added.Before(now.Add(-age))
		})
		if most := int(e.MaxDocuments); most > 0 && len(left) > most {
			oldest := slices.Clone(left.Without(indextest.Bare))
			slices.SortFunc(oldest, func(a, b index.Document) int {
				return cmp.Or(a.Added.Compare(b.Added), cmp.Compare(a.ID, b.ID))
			})
			oldest = oldest[:min(len(oldest), len(left)-(most-most/100))]
			left = left.Without(func(d *index.Document) bool { return slices.Contains(oldest, *d) })
		}
		return left
	}
	overdue := slices.ContainsFunc(docs, func(d index.Document) bool {
		return !indextest.Bare(&d) && d.Added.Before(now.Add(-e.MaxAge))
	})
	if all := within(e.MaxAge); !overdue && len(docs)-len(all) == removed {
		return all
	}
	return within(e.MaxAge * 99 / 100)
}

// addOld returns an index with n documents that were added at second 1000. Its clock shows 5000.
func addOld(t *testing.T, n int) *index.Index {
	t.Helper()
	now := int64(1000)
	x := index.OpenMem(t, index.Options{Now: func() time.Time { return time.Unix(now, 0) }})
	must(t, x.Add(t.Context(), index.Strangers(n)...))
	now = 5000
	return x
}

// TestExpireAfterInterruption tests that Expire removes the documents that an interrupted
// DeleteBefore left, also if no document was added in between.
func TestExpireAfterInterruption(t *testing.T) {
	for round := range 20 {
		x := addOld(t, 600)
		cut := testhook.NewCountdown(int64(3 + 40*round))
		first, err := x.DeleteBefore(cut, time.Unix(4000, 0))
		if first < 600 && err == nil {
			t.Fatalf("%d of 600 documents removed without an error", first)
		}
		rest, err := x.Expire(t.Context(), index.Expiry{MaxAge: 1000 * time.Second})
		if err != nil || first+rest != 600 {
			t.Errorf("interrupted after %d documents: %d more, %v", first, rest, err)
		}
	}
}

// TestConcurrentExpiresKeepTheBound tests that concurrent calls of Expire together remove as many
// documents as one call.
func TestConcurrentExpiresKeepTheBound(t *testing.T) {
	for range 20 {
		x := addOld(t, 300)
		var removed atomic.Int64
		var calls errgroup.Group
		for range 4 {
			calls.Go(func() error {
				n, err := x.Expire(t.Context(), index.Expiry{MaxDocuments: 50})
				removed.Add(int64(n))
				return err
			})
		}
		must(t, calls.Wait())
		if n := x.Stats().Documents; n != 50 || removed.Load() != 250 {
			t.Fatalf("%d of 300 documents remain, and %d were removed; want 50 and 250", n,
				removed.Load())
		}
	}
}
