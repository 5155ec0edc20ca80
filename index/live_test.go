package index_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/rewrite"
	"github.com/neardup/neardup/internal/testing/testgen"
	"golang.org/x/sync/errgroup"
)

// loaded returns the file system of an index into which documents were loaded.
func loaded(t *testing.T, docs []index.Document) vfs.FS {
	t.Helper()
	opts := index.Options{FS: vfs.NewMem()}
	_, err := compaction.Load(t.Context(), "index", testgen.Sequence(docs),
		compaction.LoadOptions{Index: opts})
	must(t, err)
	return opts.FS
}

// TestLiveAfterReopening tests that packed documents with equal fingerprints do not count as live
// entries after the index is opened again. Otherwise a compaction might start without need.
func TestLiveAfterReopening(t *testing.T) {
	docs := index.Strangers(5000)
	fsys := loaded(t, slices.Concat(docs, docs))
	for _, live := range []uint64{0, 100} {
		x := index.OpenMem(t, index.Options{FS: fsys})
		if n := x.Stats().Live; n != live {
			t.Errorf("%d live documents, want %d", n, live)
		}
		must(t, x.Add(t.Context(), make([]index.Document, 100)...), x.Close())
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

// TestFrozenEpochIsPackedAgain tests that the compaction after an interrupted one packs the frozen
// epoch with the next ID of the moment when the epoch was frozen.
func TestFrozenEpochIsPackedAgain(t *testing.T) {
	opts := index.Options{FS: vfs.NewMem()}
	x := index.OpenMem(t, opts)
	failed := errors.New("not packed")
	for round := range uint64(3) {
		must(t, x.Add(t.Context(), make([]index.Document, 3)...))
		_, err := x.DeleteIDs(t.Context(), 3+3*round)
		must(t, err)
		err = rewrite.Repack(t.Context(), x, func(_ context.Context,
			f rewrite.Frozen) (rewrite.Packed, error) {
			if n := f.Counters.NextID; n != 4 {
				t.Errorf("round %d: the next ID is %d, not 4", round, n)
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

// TestDeleteIDsOfBareDocuments deletes documents without a record by concurrent calls, with
// repeated IDs and in several commits. Each document must be removed and counted once. A document
// that is added during the calls must be removed completely or remain.
func TestDeleteIDsOfBareDocuments(t *testing.T) {
	const bare = 3000
	docs := index.Strangers(bare + 100)
	for i := range bare {
		docs[i].Key = ""
	}
	x := index.OpenMem(t, index.Options{FS: loaded(t, docs[:bare])})
	var ids []uint64
	for id := range uint64(bare + 100) {
		ids = append(ids, id, id, math.MaxUint64-id)
	}
	var calls errgroup.Group
	var removed atomic.Int64
	for range 4 {
		calls.Go(func() error {
			n, err := x.DeleteIDs(t.Context(), ids...)
			removed.Add(int64(n))
			return err
		})
	}
	for i := range docs[bare:] {
		must(t, x.Add(t.Context(), docs[bare+i]))
	}
	must(t, calls.Wait())
	if s := x.Stats(); removed.Load() < bare || s.Bare != 0 ||
		s.Documents != uint64(len(docs))-uint64(removed.Load()) {
		t.Errorf("%d removed: %+v", removed.Load(), s)
	}
}
