package index_test

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/crashfs"
	"github.com/neardup/neardup/internal/indextest"
)

// The disk fails at one of the syncs of a long batch. The verdicts that come with the error
// hold: what they say is stored is there after a crash, and they are not all.
func TestVerdictsOfABatchThatFailsAreDurable(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	docs := make([]index.Document, 1200)
	for i := range docs {
		docs[i].Fingerprint = fingerprint.Fingerprint(rng.Uint64())
	}
	lengths := map[int]bool{}
	for fails := int64(1); fails <= 6; fails++ {
		disk := crashfs.New()
		var armed atomic.Bool
		var syncs atomic.Int64
		x, err := index.Open("ix", &index.Options{FS: errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
			sync := op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData || op.Kind == errorfs.OpFileSyncTo
			if armed.Load() && sync && strings.HasSuffix(op.Path, ".log") && syncs.Add(1) == fails {
				return errorfs.ErrInjected
			}
			return nil
		}))})
		must(t, err)
		armed.Store(true)
		verdicts, err := x.CheckAndAddBatch(context.Background(), docs)
		if failed := syncs.Load() >= fails; failed != (err != nil) || failed == (len(verdicts) == len(docs)) {
			t.Errorf("sync %d of %d fails: %d verdicts, %v", fails, syncs.Load(), len(verdicts), err)
		}
		lengths[len(verdicts)] = true
		left := disk.CrashClone(vfs.CrashCloneCfg{})
		x.Close() // it has failed
		if x, err = index.Open("ix", &index.Options{FS: left, MustExist: true}); err != nil {
			t.Fatal(err)
		}
		stored := map[uint64]index.Document{}
		for d, err := range x.Documents(context.Background()) {
			must(t, err)
			stored[d.ID] = d
		}
		for i, v := range verdicts {
			if v.Status != index.New || v.Document.ID == 0 || stored[v.Document.ID] != v.Document {
				t.Fatalf("sync %d fails: of %d verdicts the one for document %d is %v, and it is lost", fails, len(verdicts), i, v.Status)
			}
		}
		must(t, indextest.Problems(x), x.Close())
	}
	if len(lengths) < 3 {
		t.Errorf("the batch failed after so many verdicts: %v", lengths)
	}
}
