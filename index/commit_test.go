package index_test

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/testing/crashfs"
	"github.com/neardup/neardup/internal/testing/indextest"
)

// TestPanicInACommit tests that Options.Now may panic in a commit. The call must panic, and the
// index must continue to work.
func TestPanicInACommit(t *testing.T) {
	var panics atomic.Bool
	panics.Store(true)
	x := index.OpenMem(t, index.Options{Now: func() time.Time {
		if panics.Load() {
			panic("of the caller")
		}
		return time.Unix(1, 0)
	}})
	for _, call := range []func(){
		func() { x.CheckAndAdd(t.Context(), index.Document{Key: "a"}) },
		func() { x.Add(t.Context(), index.Document{Key: "a"}) },
	} {
		func() {
			defer func() {
				if p := recover(); p != "of the caller" {
					t.Errorf("recovered %v", p)
				}
			}()
			call()
		}()
	}
	panics.Store(false)
	must(t, x.Add(t.Context(), index.Document{Key: "a"}))
	if v, err := x.CheckAndAdd(t.Context(), index.Document{Key: "b",
		Fingerprint: 0xffff << 40}); err != nil || v.Status != index.New {
		t.Error(v.Status, err)
	}
}

// TestQueryWhileTablesAreInstalled starts a query while a compaction packs. The query takes its
// view after the new tables are installed and a page has moved from one near fingerprint to
// another. It must find the page once.
func TestQueryWhileTablesAreInstalled(t *testing.T) {
	ctx := t.Context()
	var packing func()
	var once sync.Once
	x := index.OpenMem(t, index.Options{FS: errorfs.Wrap(vfs.NewMem(),
		errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind == errorfs.OpCreate && strings.Contains(op.Path, "incoming") {
				once.Do(packing)
			}
			return nil
		}))})
	must(t, x.Add(ctx, index.Document{Key: "packed", Fingerprint: 0xffff << 40}))
	reached, moved, answered := make(chan bool), make(chan bool), make(chan bool)
	packing = func() {
		if err := x.Add(ctx, index.Document{Key: "page", Fingerprint: 1}); err != nil {
			t.Error(err)
		}
		var waited atomic.Bool
		x.AroundView(func() {
			if waited.CompareAndSwap(false, true) {
				close(reached)
				<-moved
			}
		})
		go func() {
			defer close(answered)
			matches, err := x.Query(ctx, index.Query{})
			if err != nil || len(matches) != 1 || matches[0].Key != "page" {
				t.Errorf("%+v, %v", matches, err)
			}
		}()
		<-reached
	}
	_, err := compaction.Compact(ctx, x, compaction.Options{})
	must(t, err)
	select {
	case <-reached:
	default:
		t.Fatal("nothing was packed")
	}
	must(t, x.Add(ctx, index.Document{Key: "page", Fingerprint: 2}))
	close(moved)
	<-answered
	x.AroundView(nil)
}

// TestCallsWaitForTheDisk tests that, with Sync, no call returns before the documents it stored
// or found are durable.
func TestCallsWaitForTheDisk(t *testing.T) {
	ctx := t.Context()
	check := func(x *index.Index, docs ...index.Document) error {
		_, err := x.CheckAndAddBatch(ctx, docs)
		return err
	}
	for name, call := range map[string]func(x *index.Index) error{
		"add": func(x *index.Index) error {
			return x.Add(ctx, index.Document{Key: "new", Fingerprint: 1 << 40})
		},
		"check of a new one": func(x *index.Index) error {
			_, err := x.CheckAndAdd(ctx, index.Document{Fingerprint: 0xff << 40})
			return err
		},
		"check of a duplicate": func(x *index.Index) error {
			_, err := x.CheckAndAdd(ctx, index.Document{Fingerprint: 1})
			return err
		},
		"batch of a new one": func(x *index.Index) error {
			return check(x, index.Document{Fingerprint: 0xff << 40})
		},
		"batch of duplicates": func(x *index.Index) error {
			return check(x, index.Document{Fingerprint: 1}, index.Document{Fingerprint: 2})
		},
		"delete": func(x *index.Index) error {
			_, err := x.Delete(ctx, "old")
			return err
		},
		"delete of nothing": func(x *index.Index) error {
			_, err := x.Delete(ctx, "none")
			return err
		},
		"delete of an ID": func(x *index.Index) error {
			_, err := x.DeleteIDs(ctx, 1)
			return err
		},
	} {
		release := make(chan bool)
		var armed atomic.Bool
		x, err := index.Open("ix",
			&index.Options{FS: errorfs.Wrap(vfs.NewMem(),
				errorfs.InjectorFunc(func(op errorfs.Op) error {
					if armed.Load() && isSync(op) && strings.HasSuffix(op.Path, ".log") {
						<-release
					}
					return nil
				}))})
		must(t, err)
		must(t, x.Add(ctx, index.Document{Key: "old", Fingerprint: 0xffff << 44}))
		armed.Store(true)
		var calls sync.WaitGroup
		var returned atomic.Int32
		begin := func(call func(x *index.Index) error) {
			calls.Go(func() {
				if err := call(x); err != nil {
					t.Error(err)
				}
				returned.Add(1)
			})
		}
		begin(func(x *index.Index) error { return x.Add(ctx, index.Document{Key: "original"}) })
		for begun := time.Now(); x.Stats().Documents < 2 && time.Since(begun) < 20*time.Second; {
			time.Sleep(time.Millisecond)
		}
		begin(call)
		time.Sleep(50 * time.Millisecond)
		if n := returned.Load(); n != 0 {
			t.Errorf("%s: %d calls returned before the sync", name, n)
		}
		close(release)
		calls.Wait()
		must(t, indextest.Problems(x), x.Close())
	}
}

// TestSyncIsDurable tests that writes without Sync are durable after Index.Sync.
func TestSyncIsDurable(t *testing.T) {
	disk := crashfs.New()
	x := index.OpenMem(t, index.Options{FS: disk})
	must(t, x.Add(t.Context(), index.Strangers(3)...), x.Sync(t.Context()))
	left := index.OpenMem(t, index.Options{FS: disk.CrashClone(vfs.CrashCloneCfg{})})
	if n := left.Stats().Documents; n != 3 {
		t.Errorf("%d documents are left of 3", n)
	}
}

// TestRecrawlDuringAnExpiry recrawls a page while documents with its old time are removed. The
// page must stay, at any moment of the expiry.
func TestRecrawlDuringAnExpiry(t *testing.T) {
	ctx := t.Context()
	for at := range 6 {
		now := int64(0)
		x := index.OpenMem(t, index.Options{Now: func() time.Time { return time.Unix(now, 0) }})
		must(t, x.Add(ctx, index.Document{Key: "page", Fingerprint: 5},
			index.Document{Key: "old", Fingerprint: 0xffff << 40}))
		now = 100
		asks := 0
		_, err := x.DeleteBefore(index.WhenAsked{ctx, func() {
			if asks++; asks == at+1 {
				must(t, x.Add(ctx, index.Document{Key: "page", Fingerprint: 5}))
			}
		}}, time.Unix(50, 0))
		must(t, err)
		if asks <= at { // there were fewer
			must(t, x.Add(ctx, index.Document{Key: "page", Fingerprint: 5}))
		}
		d, found, err := x.Get(ctx, "page")
		if err != nil || !found || d.Added.Unix() != 100 || x.Stats().Documents != 1 {
			t.Errorf("stored when the context is asked %d times: %+v, %t, %d documents, %v", at+1,
				d, found, x.Stats().Documents, err)
		}
	}
}

// The disk fails at one of the syncs of a long batch. The verdicts that come with the error
// hold: what they say is stored is there after a crash, and they are not all.
func TestVerdictsOfABatchThatFailsAreDurable(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	docs := make([]index.Document, 4000)
	for i := range docs {
		docs[i].Fingerprint = fingerprint.Fingerprint(rng.Uint64())
	}
	lengths := map[int]bool{}
	for fails := int64(1); fails <= 12; fails++ {
		disk := crashfs.New()
		var armed atomic.Bool
		var syncs atomic.Int64
		x, err := index.Open("ix",
			&index.Options{FS: errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
				if armed.Load() && isSync(op) && strings.HasSuffix(op.Path, ".log") &&
					syncs.Add(1) == fails {
					return errorfs.ErrInjected
				}
				return nil
			}))})
		must(t, err)
		armed.Store(true)
		verdicts, err := x.CheckAndAddBatch(context.Background(), docs)
		if failed := syncs.Load() >= fails; failed != (err != nil) ||
			failed == (len(verdicts) == len(docs)) {
			t.Errorf("sync %d of %d fails: %d verdicts, %v", fails, syncs.Load(),
				len(verdicts), err)
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
				t.Fatalf("sync %d fails: of %d verdicts the one for document %d is %v, and it is "+
					"lost", fails, len(verdicts), i, v.Status)
			}
		}
		must(t, indextest.Problems(x), x.Close())
	}
	// a slow machine makes few syncs, since one sync covers all windows that wait
	if len(lengths) < 2 {
		t.Errorf("the batch failed after these numbers of verdicts: %v", lengths)
	}
}
