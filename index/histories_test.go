package index_test

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/neardup/neardup/internal/testing/testenv"
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
	worlds(t, seed, false, false, func(w *world) int64 { return w.calls }, want)
}

// TestNestedHistories makes calls within other calls, at moments that chance hardly ever finds:
// when the outer call checks its context, just before and after it takes a snapshot or applies a
// commit, and before each file operation of a compaction or a checkpoint. Some order of the calls
// must explain every answer.
func TestNestedHistories(t *testing.T) {
	t.Parallel()
	seed, want := testenv.Seed(t), testenv.Asked(t, "NEARDUP_CALLS",
		length(4000, 20_000, 200_000, 5_000_000))
	worlds(t, seed, false, true, func(w *world) int64 { return w.calls }, want)
}

// TestConcurrentCrashHistories does the same with a slow disk, and the machine stops at any
// moment. The remaining documents must be the result of all acknowledged calls and some of the
// unfinished calls. This includes the documents that verdicts name, and the content of
// checkpoints.
func TestConcurrentCrashHistories(t *testing.T) {
	t.Parallel()
	seed, want := testenv.Seed(t), testenv.Asked(t, "NEARDUP_CRASH_POINTS",
		length(30, 100, 1000, 10_000))
	worlds(t, seed, true, false, func(w *world) int64 { return w.moments }, want)
}

// worlds runs worlds until their count reaches the wanted number.
func worlds(t *testing.T, seed uint64, crash, nested bool, count func(*world) int64, want int) {
	plans := roundPlans
	if nested { // single calls reach each other best on few sites
		plans = plans[:3]
	}
	var done, calls, n int64
	for ; done < int64(want) && !t.Failed(); n++ {
		rng := rand.New(rand.NewPCG(seed, uint64(n)))
		w, err := newWorld(rng, crash)
		must(t, err)
		w.nested, w.compacts = nested, rng.IntN(3) > 0
		for range 1 + rng.IntN(4) {
			if err = w.round(plans[rng.IntN(len(plans))]); err == nil {
				err = w.betweenRounds(t.Context())
			}
			if err != nil {
				break
			}
		}
		if err := errors.Join(err, w.index.Close()); err != nil {
			w.options.FS = nil
			t.Fatalf("NEARDUP_SEED=%d, world %d, %+v: %v", seed, n, w.options, err)
		}
		done, calls = done+count(w), calls+w.calls
	}
	t.Logf("NEARDUP_SEED=%d: %d calls in %d worlds, count %d", seed, calls, n, done)
}
