package index_test

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/testing/crashfs"
	"github.com/neardup/neardup/internal/testing/indextest"
)

// failingChange fails operations that change the disk, with ENOSPC.
type failingChange struct {
	armed atomic.Bool
	left  atomic.Int64 // changes until the first one that fails
	times int64        // the number of changes that fail, one after the other
	hit   atomic.Pointer[string]
}

func (f *failingChange) MaybeError(op errorfs.Op) error {
	if !f.armed.Load() || op.Kind.ReadOrWrite() != errorfs.OpIsWrite {
		return nil
	}
	if left := f.left.Add(-1); left > 0 || left <= -f.times {
		return nil
	}
	f.hit.Store(new(fmt.Sprintf("%v %s", op.Kind, op.Path)))
	return fmt.Errorf("injected: %w", syscall.ENOSPC)
}

func (f *failingChange) String() string { return "one change" }

// TestIndexGoesOnAfterAFailedStep lets one change of the disk fail during a compaction or a
// checkpoint. If the index continues without ErrFailed, its readers and writers must see all
// documents. Every near copy must be a duplicate, also of documents that are added later, and the
// next compaction must succeed.
func TestIndexGoesOnAfterAFailedStep(t *testing.T) {
	ctx := t.Context()
	disk := crashfs.New()
	opts := index.Options{FS: disk, MaxDistance: 3}
	x, err := index.Open("ix", &opts)
	must(t, err)
	docs := numbered(40)
	must(t, x.Add(ctx, docs[:20]...))
	_, err = compaction.Compact(ctx, x, compaction.Options{})
	must(t, err)
	must(t, x.Add(ctx, docs[20:]...))
	must(t, x.Close())

	compact := func(x *index.Index) error {
		_, err := compaction.Compact(ctx, x, compaction.Options{})
		return err
	}
	checkpoint := func(x *index.Index) error { return x.Checkpoint(ctx, "copy") }
	for what, c := range map[string]struct {
		times int64
		step  func(*index.Index) error
	}{
		"compaction": {1, compact},
		// Pebble copies a file that it cannot link, so an ingestion fails only if both operations
		// fail.
		"compaction, two changes": {2, compact},
		"checkpoint":              {1, checkpoint},
	} {
		t.Run(what, func(t *testing.T) {
			failed, wentOn := 0, 0
			for n := int64(1); ; n++ {
				f, opts := &failingChange{times: c.times}, opts
				opts.FS = errorfs.Wrap(disk.CrashClone(vfs.CrashCloneCfg{}), f)
				x, err := index.Open("ix", &opts)
				must(t, err)
				f.left.Store(n)
				f.armed.Store(true)
				err = c.step(x)
				f.armed.Store(false)
				if f.hit.Load() == nil { // there are fewer changes
					must(t, err, x.Close())
					break
				}
				if err != nil {
					failed++
				}
				where := fmt.Sprintf("change %d fails, %s: %v", n, *f.hit.Load(), err)
				if probe := x.Add(ctx, index.Document{Key: "probe", Fingerprint: 1}); errors.Is(
					probe, index.ErrFailed) {
					x.Close() // it says that it has failed
					continue
				} else if probe != nil {
					t.Fatalf("%s: %v", where, probe)
				}
				wentOn++
				if err := afterAFailedStep(t, x, docs); err != nil {
					t.Errorf("%s: %v", where, err)
				}
				must(t, x.Close())
			}
			t.Logf("%d calls failed; %d times the index went on", failed, wentOn)
			if failed == 0 || wentOn == 0 {
				t.Error("too few failures for a test")
			}
		})
	}
}

// afterAFailedStep checks near copies of the documents and of new ones, before and after a
// compaction.
func afterAFailedStep(t *testing.T, x *index.Index, docs []index.Document) error {
	added := slices.Clone(numbered(60)[50:])
	if err := x.Add(t.Context(), added...); err != nil {
		return err
	}
	for range 2 {
		for i, d := range slices.Concat(docs, added) {
			d.Key, d.Fingerprint = "near", d.Fingerprint^fingerprint.Fingerprint(0b101)<<(i%60)
			v, err := x.CheckAndAdd(t.Context(), d)
			if err != nil || v.Status != index.Duplicate || v.Of.Distance != 2 {
				return fmt.Errorf("a near copy of document %d is %v, %v", i, v.Status, err)
			}
		}
		if err := indextest.Problems(x); err != nil {
			return err
		}
		if _, err := compaction.Compact(t.Context(), x, compaction.Options{}); err != nil {
			return fmt.Errorf("the next compaction: %w", err)
		}
	}
	return nil
}
