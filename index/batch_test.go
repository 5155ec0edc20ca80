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
)

// nearTo returns a query for fingerprints near fp.
func nearTo(fp fingerprint.Fingerprint) Query {
	return Query{Signature: fingerprint.Signature{Fingerprint: fp}}
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
	documentsOf(t, x) // evicts the block of the removed IDs from the cache
	live.removed.loaded = false
	x.firstRecord.Store(2)
	r := x.reader()
	must(t, r.openView())
	failing.Store(true)
	d, found, err := r.document(1, uint64(docs[0].Fingerprint))
	r.close() // returns the same error
	failing.Store(false)
	if found || !errors.Is(err, errorfs.ErrInjected) {
		t.Errorf("%+v, found %t, %v", d, found, err)
	}
}
