package index_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/rewrite"
	"github.com/neardup/neardup/internal/testing/testgen"
)

// TestLiveAfterReopening tests that packed documents with equal fingerprints do not count as live
// entries after the index is opened again. Otherwise a compaction might start without need.
func TestLiveAfterReopening(t *testing.T) {
	const packed, live = 5000, 100
	rng := rand.New(rand.NewPCG(1, 2))
	docs := make([]index.Document, 0, 2*packed)
	for range packed {
		d := index.Document{Fingerprint: fingerprint.Fingerprint(rng.Uint64())}
		docs = append(docs, d, d)
	}
	fsys := loaded(t, docs)
	for _, add := range []int{live, 0} {
		x := index.OpenMem(t, index.Options{FS: fsys})
		before := x.Stats().Live
		for range add {
			must(t, x.Add(t.Context(),
				index.Document{Fingerprint: fingerprint.Fingerprint(rng.Uint64())}))
		}
		if n := x.Stats().Live; add > 0 && (before != 0 || n != live) || add == 0 && n != live {
			t.Errorf("%d live, after %d were added to %d", n, add, before)
		}
		must(t, x.Close())
	}
}

// TestEqualLiveFingerprintsAfterReopening tests that the filters of live entries have a
// fingerprint of many documents once, also after the index is opened again.
func TestEqualLiveFingerprintsAfterReopening(t *testing.T) {
	opts := index.Options{FS: vfs.NewMem()}
	x := index.OpenMem(t, opts)
	must(t, x.Add(t.Context(), make([]index.Document, 10_000)...), x.Close())
	x = index.OpenMem(t, opts)
	// it is loaded in the background
	for begun := time.Now(); !x.HasNear() && time.Since(begun) < 20*time.Second; {
		time.Sleep(time.Millisecond)
	}
	if n := x.Stats().FilterBytes; !x.HasNear() || n > 1<<20 {
		t.Errorf("searched in memory: %t, and the filters take %d bytes", x.HasNear(), n)
	}
}

// TestDocumentsAfterTheLastID tests that no document follows the largest ID.
func TestDocumentsAfterTheLastID(t *testing.T) {
	x := index.OpenMem(t, index.Options{})
	must(t, x.Add(t.Context(), make([]index.Document, 3)...))
	for id, want := range map[uint64]int{0: 3, 2: 1, 3: 0, math.MaxUint64: 0} {
		n := 0
		for _, err := range x.DocumentsAfter(t.Context(), id) {
			must(t, err)
			n++
		}
		if n != want {
			t.Errorf("%d documents after ID %d, not %d", n, id, want)
		}
	}
}

// TestFrozenEpochIsPackedAgain tests that a compaction after an interrupted one packs the frozen
// epoch as it was when it was frozen. Documents that were added later must be live afterwards.
func TestFrozenEpochIsPackedAgain(t *testing.T) {
	opts := index.Options{FS: vfs.NewMem()}
	x := index.OpenMem(t, opts)
	failed := errors.New("not packed")
	for round, want := range []uint64{4, 4, 4} {
		must(t, x.Add(t.Context(), make([]index.Document, 3)...))
		_, err := x.DeleteIDs(t.Context(), uint64(3+3*round))
		must(t, err)
		err = rewrite.Repack(t.Context(), x, func(_ context.Context,
			f rewrite.Frozen) (rewrite.Packed, error) {
			if n := f.Counters.NextID; n != want {
				t.Errorf("round %d: the next ID is %d, not %d", round, n, want)
			}
			return rewrite.Packed{}, failed
		})
		if !errors.Is(err, failed) {
			t.Fatal(err)
		}
		must(t, x.Close())
		x = index.OpenMem(t, opts)
	}
	_, err := compaction.Compact(t.Context(), x, compaction.Options{})
	must(t, err)
	if s := x.Stats(); s.Live != 0 || s.Documents != 6 {
		t.Errorf("%+v", s)
	}
}

// TestBareDocumentsAreRemovedOnce tests that concurrent calls of DeleteIDs remove each document
// without a record once.
func TestBareDocumentsAreRemovedOnce(t *testing.T) {
	docs := make([]index.Document, 40_000)
	for i := range docs {
		docs[i].Fingerprint = fingerprint.Fingerprint(i) << 40
	}
	x := index.OpenMem(t, index.Options{FS: loaded(t, docs)})
	ids := []uint64{1, 2, 100, uint64(len(docs)), uint64(len(docs) + 1)}
	var calls sync.WaitGroup
	var removed atomic.Int64
	for range 4 {
		calls.Go(func() {
			n, err := x.DeleteIDs(t.Context(), ids...)
			if removed.Add(int64(n)); err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
	if s := x.Stats(); removed.Load() != 4 || s.Bare != uint64(len(docs)-4) {
		t.Errorf("%d removed, %d are left", removed.Load(), s.Bare)
	}
}

// loaded returns the file system of an index into which documents were loaded.
func loaded(t *testing.T, docs []index.Document) vfs.FS {
	t.Helper()
	opts := index.Options{FS: vfs.NewMem()}
	_, err := compaction.Load(t.Context(), "index", testgen.Sequence(docs),
		compaction.LoadOptions{Index: opts})
	must(t, err)
	return opts.FS
}
