package compaction_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/testing/indextest"
	"github.com/neardup/neardup/internal/testing/testgen"
)

// openEmpty opens an empty index in memory. When the test ends, it is verified and closed.
func openEmpty(t *testing.T, now func() time.Time) *index.Index {
	t.Helper()
	x, err := index.Open("ix", &index.Options{FS: vfs.NewMem(), Durability: index.NoSync, Now: now})
	must(t, err)
	t.Cleanup(func() { must(t, indextest.Problems(x), x.Close()) })
	return x
}

// uniform returns random documents that have only a fingerprint.
func uniform(n int) []index.Document {
	return bare(testgen.Uniform(rand.New(rand.NewPCG(1, 1)), n))
}

// eventually waits until holds returns true. After patience, it fails the test with instead().
func eventually(t *testing.T, holds func() bool, instead func() any) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%+v", instead())
		}
	}
}

// watch calls Background with a valid policy. By default, a failed compaction fails the test.
func watch(t testing.TB, x *index.Index, p compaction.Policy) *compaction.Watcher {
	t.Helper()
	if p.Done == nil {
		p.Done = func(_ compaction.Report, err error) {
			if err != nil {
				t.Error(err)
			}
		}
	}
	w, err := compaction.Background(t.Context(), x, p)
	must(t, err)
	return w
}

// TestBackground tests that an index is compacted after AtLeast documents were added, and not
// before. The documents that are added during the compaction must be kept.
func TestBackground(t *testing.T) {
	ctx, x, docs := t.Context(), openEmpty(t, nil), uniform(12_000)
	w := watch(t, x, compaction.Policy{AtLeast: 1000, Every: time.Millisecond})
	must(t, x.Add(ctx, docs[:900]...))
	time.Sleep(20 * time.Millisecond)
	if s := w.Stats(); s.Runs > 0 || s.Running {
		t.Errorf("compacted before a compaction was due: %+v", s)
	}
	for some := range slices.Chunk(docs[900:], 100) {
		must(t, x.Add(ctx, some...))
	}
	eventually(t, func() bool {
		s := x.Stats()
		return s.Live < 1000 || float64(s.Live) < .25*float64(s.Packed)
	}, func() any { return w.Stats() })
	w.Close()
	if s := w.Stats(); s.Runs == 0 || s.Running || s.Last.Documents == 0 || s.Failure != "" ||
		uint64(len(docs)) != x.Stats().Documents {
		t.Errorf("Watcher: %+v, index: %+v", s, x.Stats())
	}
}

// TestCloseEndsBackground tests that an index can be closed before its Watcher, also during a
// compaction. No document may be lost.
func TestCloseEndsBackground(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	opts := &index.Options{FS: vfs.NewMem(), Durability: index.NoSync}
	for round := range 4 {
		x, err := index.Open("ix", opts)
		must(t, err)
		if n := x.Stats().Documents; n != uint64(round)*10_000 {
			t.Errorf("round %d: %d documents", round, n)
		}
		must(t, indextest.Problems(x))
		w := watch(t, x, compaction.Policy{AtLeast: 1, Share: .01, Every: time.Millisecond,
			Done: func(compaction.Report, error) {}})
		for some := range slices.Chunk(uniform(10_000), 500) {
			must(t, x.Add(t.Context(), some...))
		}
		time.Sleep(time.Duration(rng.IntN(3000)) * time.Microsecond)
		must(t, x.Close())
		w.Close()
	}
}

// TestBackgroundPacksAfterRemovals tests when removals make a compaction due: if there are at
// least AtLeast of them, and at least a quarter of the entries. The compaction drops the removed
// IDs and is not repeated.
func TestBackgroundPacksAfterRemovals(t *testing.T) {
	ctx, x := t.Context(), openEmpty(t, nil)
	must(t, x.Add(ctx, uniform(1000)...))
	_, err := compaction.Compact(ctx, x, compaction.Options{})
	must(t, err)
	w := watch(t, x, compaction.Policy{AtLeast: 100, Every: time.Millisecond})
	defer w.Close()
	for id := range uint64(250) {
		if id == 249 {
			time.Sleep(30 * time.Millisecond)
			if s := w.Stats(); s.Runs > 0 || s.Running || x.Stats().Removed != id {
				t.Errorf("compacted although less than a quarter was removed: %+v, %+v", s,
					x.Stats())
			}
		}
		_, err := x.DeleteIDs(ctx, 1+id)
		must(t, err)
	}
	eventually(t, func() bool { return w.Stats().Runs > 0 }, func() any { return w.Stats() })
	time.Sleep(30 * time.Millisecond)
	if s, stats := w.Stats(), x.Stats(); s.Runs != 1 || stats.Removed != 0 || stats.Packed != 750 ||
		stats.Documents != 750 {
		t.Errorf("%+v, %+v", s, stats)
	}
}

// expire runs a Watcher that expires documents and never compacts. The returned function closes the
// Watcher and compares the numbers of expired documents. total is the number of added documents.
func expire(t *testing.T, x *index.Index, e index.Expiry) (end func(total uint64)) {
	var expired atomic.Uint64
	w := watch(t, x, compaction.Policy{Off: true, Every: time.Millisecond, Expiry: e,
		Expired: func(n int, err error) {
			if err != nil {
				t.Error(err)
			}
			expired.Add(uint64(n))
		}})
	return func(total uint64) {
		t.Helper()
		w.Close()
		want := total - x.Stats().Documents
		if s := w.Stats(); s.Expired != want || x.Stats().Expired != want ||
			expired.Load() != want || s.Runs > 0 || s.ExpiryFailure != "" {
			t.Errorf("%+v, %+v, %d expired", s, x.Stats(), expired.Load())
		}
	}
}

// TestCloseEndsExpiry tests that a removal that Close interrupts does not count as a failure.
func TestCloseEndsExpiry(t *testing.T) {
	x := openEmpty(t, nil)
	must(t, x.Add(t.Context(), uniform(20_000)...))
	end := expire(t, x, index.Expiry{MaxDocuments: 1})
	eventually(t, func() bool { return x.Stats().Documents < 20_000 },
		func() any { return x.Stats() })
	end(20_000)
	if x.Stats().Documents == 1 {
		t.Error("Close has waited for the end of the removal")
	}
}

// TestBackgroundExpires tests expiry by age and by number during writes, also if the index is
// never compacted.
func TestBackgroundExpires(t *testing.T) {
	ctx, docs := context.Background(), uniform(5005)
	var now atomic.Int64
	now.Store(1_000_000)
	x := openEmpty(t, func() time.Time { return time.Unix(now.Load(), 0) })
	end := expire(t, x, index.Expiry{MaxAge: time.Hour, MaxDocuments: 1000})
	wait := func(least, most uint64) {
		t.Helper()
		eventually(t, func() bool { n := x.Stats().Documents; return least <= n && n <= most },
			func() any { return x.Stats() })
	}
	for chunk := range slices.Chunk(docs[:5000], 100) {
		must(t, x.Add(ctx, chunk...))
	}
	wait(990, 1000)
	now.Add(3000)
	must(t, x.Add(ctx, docs[5000:]...))
	now.Add(1000)
	wait(5, 5)
	end(5005)
}

// TestCheckpointBetweenTwoCompactions creates a checkpoint from the files before a compaction and
// a log that ends after the next compaction has frozen its epoch. The two frozen epochs have the
// same keyspace.
func TestCheckpointBetweenTwoCompactions(t *testing.T) {
	ctx := t.Context()
	// inEpoch returns the documents of epoch n, which have the same fingerprints in each epoch.
	inEpoch := func(n int) (docs []index.Document) {
		for i := range 20 {
			docs = append(docs, index.Document{Key: fmt.Sprintf("%d in epoch %d", i, n),
				Fingerprint: fingerprint.Fingerprint(i) << 40})
		}
		return docs
	}
	var packing, installing, copying func() // each is called once
	once := func(f *func()) {
		if call := *f; call != nil {
			*f = nil
			call()
		}
	}
	mem := vfs.NewMem()
	x, err := index.Open("ix", &index.Options{Durability: index.NoSync,
		FS: errorfs.Wrap(mem, writes(func(op errorfs.Op) error {
			incoming := strings.HasPrefix(op.Path, "ix/incoming/")
			switch {
			case op.Kind == errorfs.OpCreate && incoming:
				once(&packing)
			case op.Kind == errorfs.OpLink && incoming:
				once(&installing)
			case strings.HasPrefix(op.Path, "copy"):
				once(&copying)
			}
			return nil
		}))})
	must(t, err, x.Add(ctx, inEpoch(0)...))
	reached, goOn, made := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	copying = func() { close(reached); <-goOn }
	packing = func() { must(t, x.Add(ctx, inEpoch(1)...)) }
	installing = func() {
		go func() { made <- x.Checkpoint(ctx, "copy") }()
		<-reached
	}
	compact := func(x *index.Index) error {
		_, err := compaction.Compact(ctx, x, compaction.Options{})
		return err
	}
	must(t, compact(x))
	_, err = x.Delete(ctx, inEpoch(0)[0].Key, inEpoch(1)[1].Key)
	must(t, err)
	frozen, wait, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	packing = func() {
		must(t, x.Add(ctx, inEpoch(2)...), x.Sync(ctx)) // goes to the log that is copied
		close(frozen)
		<-wait
	}
	go func() { done <- compact(x) }()
	select { // the second compaction may wait for the end of the checkpoint
	case <-frozen:
	case <-time.After(100 * time.Millisecond):
	}
	must(t, x.Sync(ctx))
	close(goOn)
	must(t, <-made)
	close(wait)
	must(t, <-done, x.Close())
	y, err := index.Open("copy", &index.Options{FS: mem, MustExist: true})
	must(t, err)
	want, err := seen(y)
	must(t, err)
	if n := len(want.Docs); n != 38 && n != 58 {
		t.Errorf("the checkpoint has %d documents", n)
	}
	for range 3 {
		must(t, compact(y))
		got, err := seen(y)
		must(t, err)
		if diff := indextest.Difference(got.Docs, want.Docs); diff != "" {
			t.Errorf("a compaction has changed the documents of the checkpoint: %s", diff)
		}
		must(t, y.Add(ctx, index.Document{}))
		want, err = seen(y)
		must(t, err)
	}
	must(t, y.Close())
}
