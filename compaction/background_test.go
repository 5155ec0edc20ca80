package compaction_test

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/testing/indextest"
	"github.com/neardup/neardup/internal/testing/testgen"
)

// openEmpty opens an empty index in memory, which is closed when the test ends.
func openEmpty(t *testing.T) *index.Index {
	t.Helper()
	x, err := index.Open("ix", &index.Options{FS: vfs.NewMem(), Durability: index.NoSync})
	must(t, err)
	t.Cleanup(func() { x.Close() })
	return x
}

// eventually waits until holds returns true. If that takes too long, it fails with instead.
func eventually(t *testing.T, holds func() bool, instead func() any) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%+v", instead())
		}
	}
}

// watch calls Background with a valid policy.
func watch(
	t testing.TB, ctx context.Context, x *index.Index, p compaction.Policy,
) *compaction.Watcher {
	t.Helper()
	w, err := compaction.Background(ctx, x, p)
	must(t, err)
	return w
}

// TestPolicyIsChecked tests that Background refuses an invalid policy and starts nothing.
func TestPolicyIsChecked(t *testing.T) {
	x := openEmpty(t)
	for name, p := range map[string]compaction.Policy{
		"Share is -0.5":     {Share: -.5},
		"Share is NaN":      {Share: math.NaN()},
		"Every is -1s":      {Every: -time.Second},
		"MemoryBytes is -1": {MemoryBytes: -1},
		"MaxAge is -1h0m0s": {Expiry: index.Expiry{MaxAge: -time.Hour}},
	} {
		if w, err := compaction.Background(t.Context(), x, p); w != nil || err == nil ||
			!strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestOptionsAreChecked tests that every function that takes Options refuses invalid values.
func TestOptionsAreChecked(t *testing.T) {
	ctx, fsys := context.Background(), vfs.NewMem()
	x, err := index.Open("ix", &index.Options{FS: fsys})
	must(t, err)
	refused := func(what string, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), "Bytes is -1") {
			t.Errorf("%s: %v", what, err)
		}
	}
	none := seqOf(nil, nil)
	_, err = compaction.Compact(ctx, x, compaction.Options{MemoryBytes: -1})
	refused("Compact", err)
	must(t, x.Close())
	_, err = compaction.Run(ctx, "ix", compaction.Options{FS: fsys, CacheBytes: -1})
	refused("Run", err)
	_, err = compaction.Load(ctx, "new", none,
		compaction.LoadOptions{Index: index.Options{FS: fsys}, MemoryBytes: -1})
	refused("Load", err)
	_, err = compaction.Repair(ctx, "ix", "new",
		compaction.RepairOptions{Options: compaction.Options{FS: fsys, MemoryBytes: -1}})
	refused("Repair", err)
	if _, err := fsys.Stat("new"); err == nil {
		t.Error("Load has made the index all the same")
	}
}

// TestBackground tests that an index is compacted once the policy's number of entries was
// written, and not before. Documents written during the compaction must be kept.
func TestBackground(t *testing.T) {
	ctx, rng := context.Background(), rand.New(rand.NewPCG(1, 1))
	x := openEmpty(t)
	var failed atomic.Pointer[error]
	w := watch(t, ctx, x, compaction.Policy{AtLeast: 1000, Every: time.Millisecond,
		Done: func(_ compaction.Report, err error) {
			if err != nil {
				failed.Store(&err)
			}
		}})
	defer w.Close()
	docs := bare(testgen.Uniform(rng, 12_000))
	must(t, x.Add(ctx, docs[:900]...))
	time.Sleep(20 * time.Millisecond)
	if s := w.Stats(); s.Runs > 0 || s.Running {
		t.Errorf("compacted before that was due: %+v", s)
	}
	for i := 900; i < len(docs); i += 100 {
		must(t, x.Add(ctx, docs[i:i+100]...))
	}
	eventually(t, func() bool {
		s := x.Stats()
		return failed.Load() != nil || s.Live < 1000 || float64(s.Live) < .25*float64(s.Packed)
	}, func() any { return x.Stats() })
	if err := failed.Load(); err != nil {
		t.Error(*err)
	}
	w.Close()
	if s := w.Stats(); s.Runs == 0 || s.Running || s.Last.Documents == 0 || s.Failure != "" ||
		uint64(len(docs)) != x.Stats().Documents {
		t.Errorf("%+v, and the index has %+v", s, x.Stats())
	}
	if err := indextest.Problems(x); err != nil {
		t.Error(err)
	}
}

// TestCloseEndsBackground tests that neither the watch nor a running compaction keeps an index
// from being closed. No document may be lost.
func TestCloseEndsBackground(t *testing.T) {
	ctx, rng, fs := context.Background(), rand.New(rand.NewPCG(1, 2)), vfs.NewMem()
	opts := &index.Options{FS: fs, Durability: index.NoSync}
	stored := 0
	for round := range 4 {
		x, err := index.Open("ix", opts)
		must(t, err)
		w := watch(t, ctx, x, compaction.Policy{AtLeast: 1, Share: .01, Every: time.Millisecond})
		for range 20 {
			docs := bare(testgen.Uniform(rng, 500))
			must(t, x.Add(ctx, docs...))
			stored += len(docs)
		}
		time.Sleep(time.Duration(rng.IntN(3000)) * time.Microsecond)
		must(t, x.Close())
		w.Close()
		x, err = index.Open("ix", opts)
		must(t, err)
		if s := x.Stats(); s.Documents != uint64(stored) {
			t.Errorf("round %d: %d documents, not %d", round, s.Documents, stored)
		}
		if err := indextest.Problems(x); err != nil {
			t.Errorf("round %d: %v", round, err)
		}
		must(t, x.Close())
	}
}

// TestBackgroundPacksAfterRemovals tests when removals make a compaction due: if there are at
// least AtLeast of them, and at least a quarter of the entries. The compaction drops the removed
// IDs and is not repeated.
func TestBackgroundPacksAfterRemovals(t *testing.T) {
	ctx, rng := context.Background(), rand.New(rand.NewPCG(1, 3))
	x := openEmpty(t)
	must(t, x.Add(ctx, bare(testgen.Uniform(rng, 1000))...))
	_, err := compaction.Compact(ctx, x, compaction.Options{})
	must(t, err)
	w := watch(t, ctx, x, compaction.Policy{AtLeast: 100, Every: time.Millisecond})
	defer w.Close()
	for id := range uint64(249) {
		_, err := x.DeleteIDs(ctx, 1+id)
		must(t, err)
	}
	time.Sleep(30 * time.Millisecond)
	if s := w.Stats(); s.Runs > 0 || s.Running || x.Stats().Removed != 249 {
		t.Errorf("compacted although less than a quarter of the entries was removed: %+v, %+v", s,
			x.Stats())
	}
	_, err = x.DeleteIDs(ctx, 250)
	must(t, err)
	eventually(t, func() bool { return w.Stats().Runs > 0 }, func() any { return w.Stats() })
	time.Sleep(30 * time.Millisecond)
	if s, stats := w.Stats(), x.Stats(); s.Runs != 1 || stats.Removed != 0 || stats.Packed != 750 ||
		stats.Documents != 750 {
		t.Errorf("%+v, %+v", s, stats)
	}
	if err := indextest.Problems(x); err != nil {
		t.Error(err)
	}
}

// TestCloseEndsExpiry tests that a removal that Close interrupts does not count as a failure.
func TestCloseEndsExpiry(t *testing.T) {
	ctx := context.Background()
	x := openEmpty(t)
	must(t, x.Add(ctx, bare(testgen.Uniform(rand.New(rand.NewPCG(2, 4)), 20_000))...))
	var expired atomic.Uint64
	w := watch(t, ctx, x, compaction.Policy{Off: true, Expiry: index.Expiry{MaxDocuments: 1},
		Expired: func(n int, err error) {
			if err != nil {
				t.Error(err)
			}
			expired.Add(uint64(n))
		}})
	eventually(t, func() bool { return x.Stats().Documents < 20_000 },
		func() any { return w.Stats() })
	w.Close()
	if s := w.Stats(); x.Stats().Documents == 1 || s.ExpiryFailure != "" ||
		s.Expired != expired.Load() || s.Expired != 20_000-x.Stats().Documents {
		t.Errorf("%+v, %d documents, %d expired", s, x.Stats().Documents, expired.Load())
	}
}

// TestBackgroundExpires tests expiry by age and by number during writes, also if the index is
// never compacted.
func TestBackgroundExpires(t *testing.T) {
	ctx, rng := context.Background(), rand.New(rand.NewPCG(1, 4))
	var now atomic.Int64
	x, err := index.Open("ix", &index.Options{FS: vfs.NewMem(), Durability: index.NoSync,
		Now: func() time.Time { return time.Unix(now.Load(), 0) }})
	must(t, err)
	defer x.Close()
	var expired atomic.Int64
	w := watch(t, ctx, x, compaction.Policy{
		Off: true, Every: time.Millisecond, Expiry: index.Expiry{MaxAge: time.Hour,
			MaxDocuments: 1000},
		Expired: func(n int, err error) {
			if err != nil {
				t.Error(err)
			}
			expired.Add(int64(n))
		},
	})
	defer w.Close()
	wait := func(least, most uint64) {
		t.Helper()
		eventually(t, func() bool { n := x.Stats().Documents; return least <= n && n <= most },
			func() any { return w.Stats() })
	}
	now.Store(1_000_000)
	docs := bare(testgen.Uniform(rng, 5000))
	for chunk := range slices.Chunk(docs, 100) {
		must(t, x.Add(ctx, chunk...))
	}
	wait(990, 1000)
	now.Add(3000)
	must(t, x.Add(ctx, bare(testgen.Uniform(rng, 5))...))
	now.Add(1000)
	wait(5, 5)
	w.Close()
	if s := w.Stats(); s.Expired != 5000 || x.Stats().Expired != 5000 || expired.Load() != 5000 ||
		s.Runs > 0 || s.ExpiryFailure != "" {
		t.Errorf("%+v, %+v, %d", s, x.Stats(), expired.Load())
	}
	if err := indextest.Problems(x); err != nil {
		t.Error(err)
	}
}
