package index

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/neardup/neardup/fingerprint"
)

// nearTo asks for what is near to a fingerprint.
func nearTo(fp fingerprint.Fingerprint) Query {
	return Query{Signature: fingerprint.Signature{Fingerprint: fp}}
}

// TestBatchesAreSorted: few queries are answered one by one, and many table by table.
func TestBatchesAreSorted(t *testing.T) {
	p := mustPlan(t, "2", 3)
	for _, c := range []struct {
		queries int
		packed  int64
		toRead  float64
		want    bool
	}{
		{100, 100_000_000, 1, false},
		{100_000, 100_000_000, 1, true},
		{1_000_000, 100_000, 0, true},
	} {
		if got := sortsBatch(p, c.queries, c.packed, c.toRead); got != c.want {
			t.Errorf("%d queries of %d fingerprints, %g of them to be read: sorted is %v", c.queries, c.packed, c.toRead, got)
		}
	}
}

// TestQueryBatchStopsInPlace: an error of what is read ahead is not yielded to a loop that has ended.
func TestQueryBatchStopsInPlace(t *testing.T) {
	ctx, rng := t.Context(), rand.New(rand.NewPCG(1, 2))
	var failing atomic.Bool
	fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if failing.Load() && op.Kind == errorfs.OpFileReadAt {
			return errorfs.ErrInjected
		}
		return nil
	}))
	o := Options{FS: fs, Durability: NoSync, CacheBytes: 1 << 20}
	x := openMem(t, o)
	docs, queries := make([]Document, 30_000), make([]Query, 10_000)
	for i := range docs {
		docs[i] = Document{Fingerprint: fingerprint.Fingerprint(rng.Uint64()), Key: fmt.Sprintf("https://example.com/%d/%x", i, rng.Uint64())}
	}
	must(t, x.Add(ctx, docs...))
	must(t, x.Close())
	x = openMem(t, o)
	x.state.Load().packed.Wait(ctx)
	x.state.Load().written().Wait(ctx)
	for i := range queries {
		queries[i] = nearTo(docs[3*i].Fingerprint)
	}
	for range x.QueryBatch(ctx, queries) {
		failing.Store(true)
		time.Sleep(50 * time.Millisecond) // for the workers to meet the error
		break
	}
	failing.Store(false)
}
