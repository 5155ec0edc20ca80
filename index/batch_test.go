package index

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/internal/plan"
)

// nearTo returns a query for fingerprints near fp.
func nearTo(fp fingerprint.Fingerprint) Query {
	return Query{Signature: fingerprint.Signature{Fingerprint: fp}}
}

// TestScanOfColdIndexes tests that a large batch on an index on disk is answered by a pass over
// the index. Few queries, and queries on an index in memory, are answered one by one.
func TestScanOfColdIndexes(t *testing.T) {
	p, pages := mustPlan(t, "2", 3), mustPlan(t, "blocks-4", 6)
	for _, c := range []struct {
		plan    *plan.Plan
		queries int
		packed  int64
		toRead  float64
		want    bool
	}{
		{p, 10_000, 100_000_000, 1, false},
		{p, 100_000, 100_000_000, 1, true},
		{p, 1_000_000, 100_000_000, 0.5, true},
		{p, 1_000_000, 100_000_000, 0, false},
		{p, 1000, 10_000, 1, false},
		{pages, 1000, 10_000_000, 1, false},
		{pages, 100_000, 10_000_000, 1, true},
		{pages, 10_000, 10_000_000, 0, false},
	} {
		if got := scanIsFaster(c.plan, c.queries, c.plan.MaxDistance, c.packed,
			c.toRead); got != c.want {
			t.Errorf("%d queries within %d bits of %d fingerprints, %g of them to be read: a "+
				"pass is %v", c.queries, c.plan.MaxDistance, c.packed, c.toRead, got)
		}
	}
}

// TestUnreadableRemovals tests that a reader returns an error if it cannot find out whether a
// document without a record was removed.
func TestUnreadableRemovals(t *testing.T) {
	ctx, rng := t.Context(), rand.New(rand.NewPCG(1, 2))
	var failing atomic.Bool
	o := Options{CacheBytes: 1 << 20, FS: Injecting(vfs.NewMem(), func(op errorfs.Op) error {
		if failing.Load() && op.Kind == errorfs.OpFileReadAt {
			return errorfs.ErrInjected
		}
		return nil
	})}
	x := OpenMem(t, o)
	docs := make([]Document, 30_000)
	for i := range docs {
		docs[i] = Document{Fingerprint: fingerprint.Fingerprint(rng.Uint64()),
			Key: fmt.Sprintf("https://example.com/%d/%x", i, rng.Uint64())}
	}
	must(t, x.Add(ctx, docs...))
	_, err := x.DeleteIDs(ctx, 1)
	must(t, err, x.Close())
	x = OpenMem(t, o)
	s := x.state.Load()
	live := s.newest()
	must(t, s.packed.Wait(ctx), live.Wait(ctx), live.removed.Wait(ctx), s.keys.Wait(ctx))
	documentsOf(t, x) // now the cache has other blocks than the IDs that were removed
	live.removed.loaded = false
	x.firstRecord.Store(2)
	r := x.reader()
	must(t, r.openView())
	failing.Store(true)
	d, found, err := r.document(1, uint64(docs[0].Fingerprint))
	r.close() // it returns the same error
	failing.Store(false)
	if found || !errors.Is(err, errorfs.ErrInjected) {
		t.Errorf("%+v, found %t, %v", d, found, err)
	}
}
