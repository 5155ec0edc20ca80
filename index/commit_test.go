package index_test

import (
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
	"github.com/neardup/neardup/internal/testing/testgen"
	"golang.org/x/sync/errgroup"
)

// TestQueryWhileTablesAreInstalled starts a query during a compaction. The query opens its view
// after the new tables are installed and a page has got another near fingerprint. It must find the
// page once.
func TestQueryWhileTablesAreInstalled(t *testing.T) {
	ctx := t.Context()
	var packing sync.Once
	reached, moved, answered := make(chan bool), make(chan bool), make(chan bool)
	var x *index.Index
	query := func() {
		defer close(answered)
		var waits atomic.Bool
		x.AroundView(func() {
			if waits.CompareAndSwap(false, true) {
				close(reached)
				<-moved
			}
		})
		matches, err := x.Query(ctx, index.Query{})
		if err != nil || len(matches) != 1 || matches[0].Key != "page" {
			t.Errorf("%+v, %v", matches, err)
		}
	}
	x = index.OpenMem(t, index.Options{FS: index.Injecting(vfs.NewMem(),
		func(op errorfs.Op) error {
			if op.Kind == errorfs.OpCreate && strings.Contains(op.Path, "incoming") {
				packing.Do(func() {
					must(t, x.Add(ctx, index.Document{Key: "page", Fingerprint: 1}))
					go query()
					<-reached
				})
			}
			return nil
		})})
	must(t, x.Add(ctx, index.Document{Key: "packed", Fingerprint: 0xffff << 40}))
	_, err := compaction.Compact(ctx, x, compaction.Options{})
	must(t, err)
	packing.Do(func() { t.Fatal("nothing was packed") })
	must(t, x.Add(ctx, index.Document{Key: "page", Fingerprint: 2}))
	close(moved)
	<-answered
	x.AroundView(nil)
}

// injectSyncs returns a file system that calls f before each sync of a log, once armed is set.
func injectSyncs(fsys vfs.FS, armed *atomic.Bool, f func() error) vfs.FS {
	return index.Injecting(fsys, func(op errorfs.Op) error {
		if armed.Load() && isSync(op) && strings.HasSuffix(op.Path, ".log") {
			return f()
		}
		return nil
	})
}

// TestCallsWaitForTheDisk tests that, with Sync, no call returns before the documents that it
// stored or found are durable.
func TestCallsWaitForTheDisk(t *testing.T) {
	ctx := t.Context()
	for name, call := range map[string]func(x *index.Index) error{
		"add": func(x *index.Index) error {
			return x.Add(ctx, index.Document{Key: "new", Fingerprint: 1 << 40})
		},
		"check of a duplicate": func(x *index.Index) error {
			_, err := x.CheckAndAdd(ctx, index.Document{Fingerprint: 1})
			return err
		},
		"batch of a new document and duplicates": func(x *index.Index) error {
			_, err := x.CheckAndAddBatch(ctx, []index.Document{{Fingerprint: 0xff << 40},
				{Fingerprint: 1}, {Fingerprint: 2}})
			return err
		},
		"delete of an unknown key": func(x *index.Index) error {
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
		x, err := index.Open("ix", &index.Options{FS: injectSyncs(vfs.NewMem(), &armed,
			func() error {
				<-release
				return nil
			})})
		must(t, err, x.Add(ctx, index.Document{Key: "old", Fingerprint: 0xffff << 44}))
		armed.Store(true)
		var calls errgroup.Group
		var returned atomic.Int32
		begin := func(call func(x *index.Index) error) {
			calls.Go(func() error {
				defer returned.Add(1)
				return call(x)
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
		must(t, calls.Wait(), indextest.Problems(x), x.Close())
	}
}

// TestSyncIsDurable tests that writes without Sync are durable after Index.Sync.
func TestSyncIsDurable(t *testing.T) {
	disk := crashfs.New()
	x := index.OpenMem(t, index.Options{FS: disk})
	must(t, x.Add(t.Context(), index.Strangers(3)...), x.Sync(t.Context()))
	left := index.OpenMem(t, index.Options{FS: disk.CrashClone(vfs.CrashCloneCfg{})})
	if n := left.Stats().Documents; n != 3 {
		t.Errorf("%d of 3 documents remain", n)
	}
}

// TestRecrawlDuringAnExpiry recrawls a page at each check of the context by DeleteBefore, which
// removes documents with the old time of the page. The page must remain.
func TestRecrawlDuringAnExpiry(t *testing.T) {
	page := index.Document{Key: "page", Fingerprint: 5}
	for at := range 6 {
		now := time.Unix(0, 0)
		x := index.OpenMem(t, index.Options{Now: func() time.Time { return now }})
		must(t, x.Add(t.Context(), page, index.Document{Key: "old", Fingerprint: 0xffff << 40}))
		now = time.Unix(100, 0)
		asks := 0
		_, err := x.DeleteBefore(index.WhenAsked{t.Context(), func() {
			if asks++; asks == at+1 {
				must(t, x.Add(t.Context(), page))
			}
		}}, time.Unix(50, 0))
		if asks <= at { // the context was checked less often
			must(t, x.Add(t.Context(), page))
		}
		d, found, getErr := x.Get(t.Context(), "page")
		must(t, err, getErr)
		if !found || d.Added.Unix() != 100 || x.Stats().Documents != 1 {
			t.Errorf("recrawl at check %d of the context: %+v, %t, %d documents", at+1, d, found,
				x.Stats().Documents)
		}
	}
}

// TestVerdictsOfABatchThatFailsAreDurable makes one of the syncs of a long batch fail. The
// documents whose verdicts are returned with the error must be stored after a crash.
func TestVerdictsOfABatchThatFailsAreDurable(t *testing.T) {
	docs := make([]index.Document, 4000)
	for i, fp := range testgen.Uniform(rand.New(rand.NewPCG(1, 1)), len(docs)) {
		docs[i].Fingerprint = fingerprint.Fingerprint(fp)
	}
	lengths := map[int]bool{}
	for fails := int64(1); fails <= 45; fails += 4 {
		disk := crashfs.New()
		var armed atomic.Bool
		var syncs atomic.Int64
		x, err := index.Open("index", &index.Options{FS: injectSyncs(disk, &armed, func() error {
			if syncs.Add(1) == fails {
				return errorfs.ErrInjected
			}
			return nil
		})})
		must(t, err)
		armed.Store(true)
		verdicts, err := x.CheckAndAddBatch(t.Context(), docs)
		failed := syncs.Load() >= fails
		if failed != (err != nil) || failed == (len(verdicts) == len(docs)) {
			t.Errorf("sync %d of %d fails: %d verdicts, %v", fails, syncs.Load(), len(verdicts),
				err)
		}
		lengths[len(verdicts)] = true
		left := index.OpenMem(t, index.Options{FS: disk.CrashClone(vfs.CrashCloneCfg{})})
		x.Close() // it has failed
		stored, err := indextest.AllDocuments(left)
		must(t, err)
		for i, v := range verdicts { // stored[i] has ID i+1
			if v.Status != index.New || i >= len(stored) || stored[i] != v.Document {
				t.Fatalf("sync %d fails: verdict %d of %d, %v, is lost", fails, i, len(verdicts),
					v.Status)
			}
		}
	}
	// On a slow machine there are few syncs, since one sync covers all waiting windows.
	if len(lengths) < 2 {
		t.Errorf("the batch failed after these numbers of verdicts: %v", lengths)
	}
}
