package compaction_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/index/plan"
	"github.com/neardup/neardup/internal/testseed"
)

// countdown is a context that is cancelled when it is asked for the n-th time.
type countdown struct {
	context.Context
	cancel context.CancelFunc
	asked  atomic.Int64
	n      int64
}

func newCountdown(n int64) *countdown {
	ctx, cancel := context.WithCancel(context.Background())
	return &countdown{Context: ctx, cancel: cancel, n: n}
}

func (c *countdown) Err() error {
	if c.asked.Add(1) == c.n {
		c.cancel()
	}
	return c.Context.Err()
}

// wholeState is what an index holds, and how.
type wholeState struct {
	docs       []index.Document
	plan       string
	generation uint64
	nextID     uint64
}

func stateOf(t *testing.T, fsys vfs.FS) wholeState {
	t.Helper()
	x := openIndex(t, "ix", index.Options{FS: fsys, ReadOnly: true})
	defer x.Close()
	stats := x.Stats()
	return wholeState{docs: allDocuments(t, x), plan: stats.Plan, generation: stats.Generation, nextID: stats.NextID}
}

// usedIndex makes an index that is packed in part, of which some is deleted since.
func usedIndex(t *testing.T, rng *rand.Rand) *vfs.MemFS {
	t.Helper()
	ctx, fsys := context.Background(), vfs.NewCrashableMem()
	opts := index.Options{FS: fsys}
	if _, err := compaction.Load(ctx, "ix", seqOf(someDocuments(rng, 2000, 1000), nil), compaction.LoadOptions{Index: opts}); err != nil {
		t.Fatal(err)
	}
	x := openIndex(t, "ix", opts)
	err := x.Add(ctx, someDocuments(rng, 500, 1000)...)
	var gone []string
	for i := range 100 {
		gone = append(gone, fmt.Sprint("page ", i*7))
	}
	_, deleteErr := x.Delete(ctx, gone...)
	if err := errors.Join(err, deleteErr, x.Close()); err != nil {
		t.Fatal(err)
	}
	return fsys
}

// TestCancelledWorkChangesNothing cancels loads and compactions at each point where they
// look at their context, or at some of them.
func TestCancelledWorkChangesNothing(t *testing.T) {
	rng := rand.New(rand.NewPCG(testseed.Of(t), 3))
	plan, err := plan.Named("3", 6)
	if err != nil {
		t.Fatal(err)
	}
	used := usedIndex(t, rng)
	documents, moments := 3000, int64(25)
	if raceEnabled {
		documents, moments = 1000, 8
	}
	docs := someDocuments(rng, documents, 1500)
	for _, c := range []struct {
		name    string
		halfway bool // the tables may be packed, and the rest not
		work    func(context.Context, vfs.FS) (compaction.Report, error)
	}{
		{"Load", false, func(ctx context.Context, fsys vfs.FS) (compaction.Report, error) {
			return compaction.Load(ctx, "ix", seqOf(docs, nil), compaction.LoadOptions{Index: index.Options{FS: fsys}, MemoryBytes: 1})
		}},
		{"Run", true, func(ctx context.Context, fsys vfs.FS) (compaction.Report, error) {
			return compaction.Run(ctx, "ix", compaction.Options{FS: fsys, MemoryBytes: 1})
		}},
		{"Run with a plan", true, func(ctx context.Context, fsys vfs.FS) (compaction.Report, error) {
			return compaction.Run(ctx, "ix", compaction.Options{FS: fsys, MemoryBytes: 1, Plan: plan})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := stateOf(t, used.CrashClone(vfs.CrashCloneCfg{}))
			whole, done := newCountdown(-1), used.CrashClone(vfs.CrashCloneCfg{})
			if _, err := c.work(whole, done); err != nil {
				t.Fatal(err)
			}
			after := stateOf(t, done)
			goroutines, cancelled, packed := runtime.NumGoroutine(), 0, 0
			points := whole.asked.Load()
			for n := int64(1); n <= points+1; n += 1 + rng.Int64N(1+points/moments) {
				fsys := used.CrashClone(vfs.CrashCloneCfg{})
				_, err := c.work(newCountdown(n), fsys)
				want := after
				if err != nil {
					want = before
					cancelled++
				}
				if err != nil && (!errors.Is(err, context.Canceled) || errors.Is(err, compaction.ErrDone)) {
					t.Fatalf("point %d of %d: %v", n, points, err)
				}
				diskBytes(t, fsys) // and no folder
				got := stateOf(t, fsys)
				if c.halfway && err != nil && got.generation == after.generation {
					want, packed = after, packed+1
				}
				if !same(got, want) {
					t.Fatalf("point %d of %d, error %v: %d documents of generation %d, next ID %d, plan %s; not %d, %d, %d, %s",
						n, points, err, len(got.docs), got.generation, got.nextID, got.plan, len(want.docs), want.generation, want.nextID, want.plan)
				}
			}
			if cancelled < 5 || packed == cancelled {
				t.Errorf("cancelled %d times at %d points, %d times too late", cancelled, points, packed)
			}
			for range 6000 { // a minute
				if runtime.NumGoroutine() <= goroutines {
					return
				}
				time.Sleep(10 * time.Millisecond)
			}
			t.Errorf("%d goroutines, %d before", runtime.NumGoroutine(), goroutines)
		})
	}
}

func same(a, b wholeState) bool {
	return slices.Equal(withoutTimes(a.docs), withoutTimes(b.docs)) && a.plan == b.plan && a.generation == b.generation && a.nextID == b.nextID
}

// TestFailedLoadChangesNothing: what the documents are read from fails, or panics.
func TestFailedLoadChangesNothing(t *testing.T) {
	ctx := context.Background()
	rng := rand.New(rand.NewPCG(testseed.Of(t), 4))
	used := usedIndex(t, rng)
	before := stateOf(t, used.CrashClone(vfs.CrashCloneCfg{}))
	unreadable := errors.New("unreadable")
	tooLarge := string(make([]byte, index.MaxKeyBytes+1))
	sizes := []int{0, 1, 4095, 4096, 4097, 30_000} // around a batch, and spilled
	if raceEnabled {
		sizes = []int{0, 4096}
	}
	for _, n := range sizes {
		docs := someDocuments(rng, n, n+1)
		for _, c := range []struct {
			name string
			seq  func(func(index.Document, error) bool)
			want error
		}{
			{"error", seqOf(docs, unreadable), unreadable},
			{"large key", seqOf(append(docs[:n:n], index.Document{Key: tooLarge}), nil), index.ErrTooLarge},
			{"large scope", seqOf(append(docs[:n:n], index.Document{Scope: tooLarge}), nil), index.ErrTooLarge},
		} {
			fsys := used.CrashClone(vfs.CrashCloneCfg{})
			opts := compaction.LoadOptions{Index: index.Options{FS: fsys}, MemoryBytes: 1}
			if _, err := compaction.Load(ctx, "ix", c.seq, opts); !errors.Is(err, c.want) {
				t.Fatalf("%s after %d documents: %v", c.name, n, err)
			}
			if got := stateOf(t, fsys); !same(got, before) {
				t.Fatalf("%s after %d documents: %d documents are there, not %d", c.name, n, len(got.docs), len(before.docs))
			}
			diskBytes(t, fsys)
		}
	}
	x := openIndex(t, "ix", index.Options{FS: used})
	if _, err := compaction.Load(ctx, "ix", seqOf(nil, nil), compaction.LoadOptions{Index: index.Options{FS: used}}); !errors.Is(err, index.ErrLocked) {
		t.Errorf("open index: %v", err)
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		opts index.Options
		want error
	}{
		{index.Options{MaxDistance: 5}, index.ErrMismatch},
		{index.Options{Analyzer: "another"}, index.ErrMismatch},
		{index.Options{ReadOnly: true}, index.ErrReadOnly},
	} {
		c.opts.FS = used
		asked := false
		seq := func(func(index.Document, error) bool) { asked = true }
		if _, err := compaction.Load(ctx, "ix", seq, compaction.LoadOptions{Index: c.opts}); !errors.Is(err, c.want) || asked {
			t.Errorf("%+v: %v, asked for documents: %v", c.opts, err, asked)
		}
	}
}

// TestIteratorThatPanics leaves the index as it was, and closed.
func TestIteratorThatPanics(t *testing.T) {
	fsys := usedIndex(t, rand.New(rand.NewPCG(testseed.Of(t), 5)))
	before := stateOf(t, fsys)
	seq := func(yield func(index.Document, error) bool) {
		for i := range 5000 {
			yield(index.Document{Fingerprint: fingerprint.Fingerprint(i)}, nil)
		}
		panic("the caller's own")
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic is gone")
			}
		}()
		compaction.Load(context.Background(), "ix", seq, compaction.LoadOptions{Index: index.Options{FS: fsys}})
	}()
	if got := stateOf(t, fsys); !same(got, before) {
		t.Errorf("%d documents are there, not %d", len(got.docs), len(before.docs))
	}
}
