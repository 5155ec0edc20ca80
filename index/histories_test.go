package index_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/testing/indextest"
	"github.com/neardup/neardup/internal/testing/testenv"
	"golang.org/x/sync/errgroup"
)

// length returns how much of something to do: under the race detector, by default, with NEARDUP_CI
// and with NEARDUP_LONG.
func length(race, usual, ci, long int) int {
	if testenv.Race && !testenv.Long() {
		return race
	}
	return testenv.Number(usual/4, usual, ci, long)
}

// TestConcurrentHistories makes all kinds of calls from eight goroutines, with shared keys,
// scopes and groups of near-duplicates. Some order of the calls must explain every answer.
func TestConcurrentHistories(t *testing.T) {
	t.Parallel()
	seed, want := testenv.Seed(t), testenv.Asked(t, "NEARDUP_CALLS",
		length(4000, 25_000, 300_000, 10_000_000))
	worlds(t, seed, false, false, func(w *indextest.World) int64 { return w.Calls }, want)
}

// TestNestedHistories makes calls within other calls, at moments that chance hardly ever finds:
// when the outer call checks its context, just before and after it takes a snapshot or applies a
// commit, and before each file operation of a compaction or a checkpoint. Some order of the calls
// must explain every answer.
func TestNestedHistories(t *testing.T) {
	t.Parallel()
	seed, want := testenv.Seed(t), testenv.Asked(t, "NEARDUP_CALLS",
		length(4000, 20_000, 200_000, 5_000_000))
	worlds(t, seed, false, true, func(w *indextest.World) int64 { return w.Calls }, want)
}

// TestConcurrentCrashHistories does the same with a slow disk, and the machine stops at any
// moment. The remaining documents must be the result of all acknowledged calls and some of the
// unfinished calls. This includes the documents that verdicts name, and the content of
// checkpoints.
func TestConcurrentCrashHistories(t *testing.T) {
	t.Parallel()
	seed, want := testenv.Seed(t), testenv.Asked(t, "NEARDUP_CRASH_POINTS",
		length(30, 100, 1000, 10_000))
	worlds(t, seed, true, false, func(w *indextest.World) int64 { return w.Moments }, want)
}

// worlds runs worlds until their count reaches the wanted number.
func worlds(
	t *testing.T, seed uint64, crash, nested bool, count func(*indextest.World) int64, want int,
) {
	var done, calls, n int64
	for ; done < int64(want) && !t.Failed(); n++ {
		rng := rand.New(rand.NewPCG(seed, uint64(n)))
		w, err := indextest.NewWorld(rng, crash)
		must(t, err)
		if nested {
			w.Around = func(x *index.Index, view, apply func()) {
				x.AroundView(view)
				x.AroundApply(apply)
			}
		}
		if rng.IntN(3) > 0 {
			draw := rand.New(rand.NewPCG(seed, ^uint64(n)))
			var mu sync.Mutex // outer and inner calls may both compact
			w.Meanwhile = func(ctx context.Context, x *index.Index) error {
				compact := func() error {
					_, err := compaction.Compact(ctx, x, compaction.Options{MemoryBytes: 1 << 20})
					return err
				}
				mu.Lock()
				one := draw.IntN(4) > 0
				mu.Unlock()
				if one {
					return compact()
				}
				var both errgroup.Group // one waits for the other
				both.Go(compact)
				return errors.Join(compact(), both.Wait())
			}
		}
		for range 1 + rng.IntN(4) {
			plans := indextest.Plans
			if nested { // single calls reach each other best on few sites
				plans = plans[:3]
			}
			if err = w.Round(plans[rng.IntN(len(plans))]); err == nil {
				err = between(t.Context(), w, rng.IntN(4))
			}
			if err != nil {
				break
			}
		}
		if err := errors.Join(err, w.Index.Close()); err != nil {
			w.Options.FS = nil
			t.Fatalf("NEARDUP_SEED=%d, world %d, %+v: %v", seed, n, w.Options, err)
		}
		done, calls = done+count(w), calls+w.Calls
	}
	t.Logf("NEARDUP_SEED=%d: %d calls in %d worlds, count %d", seed, calls, n, done)
}

// between leaves the index as it is, opens it again, or compacts it.
func between(ctx context.Context, w *indextest.World, what int) error {
	switch what {
	case 0:
		return nil
	case 1:
		return w.Between(nil)
	}
	return w.Between(func(o index.Options) error {
		_, err := compaction.Run(ctx, "ix", compaction.Options{FS: o.FS, CacheBytes: o.CacheBytes,
			FilterBytes: o.FilterBytes})
		return err
	})
}
