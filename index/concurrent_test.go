package index

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/internal/filter"
	"github.com/neardup/neardup/internal/plan"
	"github.com/neardup/neardup/internal/testing/testenv"
	"github.com/neardup/neardup/internal/testing/testhook"
	"golang.org/x/sync/errgroup"
)

// TestCloseDuringWork closes an index during calls. Each call must return its result or ErrClosed,
// and acknowledged documents must be stored.
func TestCloseDuringWork(t *testing.T) {
	ctx := t.Context()
	for round := range 5 {
		fs := vfs.NewMem()
		x := openMem(t, Options{FS: fs})
		var added atomic.Int64
		calls := []func(fp fingerprint.Fingerprint) error{
			func(fp fingerprint.Fingerprint) error {
				_, err := x.Query(ctx, nearTo(fp))
				return err
			},
			func(fingerprint.Fingerprint) error { return lastError(x.Documents(ctx)) },
			func(fingerprint.Fingerprint) error {
				return lastError(x.QueryBatch(ctx, make([]Query, 200)))
			},
			func(fingerprint.Fingerprint) error {
				x.Stats()
				_, err := x.Delete(ctx, "unknown")
				return err
			},
			func(fp fingerprint.Fingerprint) error {
				err := x.Add(ctx, Document{Fingerprint: fp})
				if err == nil {
					added.Add(1)
				}
				return err
			},
		}
		var group errgroup.Group
		for w := range 8 {
			group.Go(func() (err error) {
				rng := rand.New(rand.NewPCG(uint64(round), uint64(w)))
				for err == nil {
					err = calls[min(w, len(calls)-1)](fingerprint.Fingerprint(rng.Uint64()))
				}
				return err
			})
		}
		time.Sleep(10 * time.Millisecond)
		must(t, x.Close())
		if first, second := group.Wait(), x.Close(); first != ErrClosed || second != ErrClosed ||
			x.Stats() != (Stats{}) {
			t.Errorf("after Close: %v, second Close: %v, %+v", first, second, x.Stats())
		}
		x = openMem(t, Options{FS: fs})
		if s := x.Stats(); s.Documents != uint64(added.Load()) {
			t.Errorf("%d documents of %d", s.Documents, added.Load())
		}
	}
}

// lastError returns the last error that an iterator yields.
func lastError[T any](loop iter.Seq2[T, error]) (last error) {
	for _, err := range loop {
		last = err
	}
	return last
}

// endLoop ends a loop after n elements or, if n is negative, by a panic at the first element.
func endLoop[T any](t *testing.T, loop iter.Seq2[T, error], n int) {
	t.Helper()
	panics := n < 0
	defer func() {
		if (recover() != nil) != panics {
			t.Error("the loop had no element")
		}
	}()
	for _, err := range loop {
		if must(t, err); panics {
			panic("in the loop")
		}
		if n--; n < 0 {
			break
		}
	}
}

// TestLoopsThatBreak leaves loops early, also by a panic. No goroutine may remain, and Close must
// not wait. The iterator must not yield an error after the loop has ended.
func TestLoopsThatBreak(t *testing.T) {
	ctx := t.Context()
	before := runtime.NumGoroutine()
	x := openMem(t, Options{Durability: NoSync})
	must(t, x.Add(ctx, make([]Document, 500)...), x.Add(ctx, Document{Key: "a"}))
	queries := slices.Repeat([]Query{{Limit: 1}}, 140)
	for n := -1; n < 140; n += testenv.Number(7, 1, 1, 1) {
		for _, scanned := range []bool{false, true} {
			endLoop(t, x.QueryBatch(testhook.WithScannedBatches(ctx, scanned), queries), n)
		}
	}
	for n := range 3 {
		endLoop(t, x.Documents(ctx), n-1)
		endLoop(t, x.Pairs(ctx, JoinOptions{}), n-1)
		endLoop(t, x.Clusters(ctx, JoinOptions{}), n-1)
	}
	for range loop(ctx, x, func(yield func(int) bool) error {
		yield(1)
		return errors.New("late") // while reading ahead
	}) {
		break
	}
	must(t, x.Close())
	testenv.NoMoreGoroutines(t, before)
}

// TestWaitingCallsShareATurn tests that calls of one document that wait for a turn share windows.
// Each must get the verdict on its own document, also if their keys are equal or the call with the
// turn is cancelled. The arguments of callers must not change.
func TestWaitingCallsShareATurn(t *testing.T) {
	const calls = 4 * groupLimit
	for _, cancelled := range []bool{false, true} {
		x := openMem(t, Options{Durability: NoSync})
		for range cap(x.turns) {
			x.turns <- struct{}{}
		}
		others := make([]Document, 2*calls) // argument of each call, then a document for others
		statuses := make([]Status, calls)
		var group errgroup.Group
		for i := range calls {
			// Each four calls have equal fingerprints, equal keys, or neither.
			key, fp := i, i+calls
			switch i / 4 % 3 {
			case 0:
				fp = i / 4
			case 1:
				key = i/4 + calls
			}
			others[2*i] = Document{Key: fmt.Sprint(key),
				Fingerprint: fingerprint.Fingerprint(rand.New(rand.NewPCG(1, uint64(fp))).Uint64())}
			group.Go(func() error {
				ctx := context.Background()
				if cancelled && i%4 == 3 {
					ctx = testhook.NewCountdown(4) // cancelled within the window of this call
				}
				verdicts, err := x.CheckAndAddBatch(ctx, others[2*i:2*i+1])
				if errors.Is(err, context.Canceled) && i%4 == 3 {
					return nil
				}
				if err == nil {
					statuses[i] = verdicts[0].Status
				}
				return err
			})
		}
		time.Sleep(50 * time.Millisecond) // until the calls wait
		applied := x.applied.Load()
		for range cap(x.turns) {
			<-x.turns
		}
		must(t, group.Wait())
		// Without windows of several documents, the calls make 95 changes.
		if n := x.applied.Load() - applied; !cancelled && n >= calls*2/3 {
			t.Errorf("%d calls made %d changes", calls, n)
		}
		for i := 0; i < calls; i += 4 {
			got, later := statuses[i:i+4], []Status{Duplicate, Known, New}[i/4%3]
			slices.Sort(got)
			want := []Status{New, later, later, later}
			if cancelled && got[0] == 0 {
				want = []Status{0, New, later, later}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%d to %d: %v, not %v", i, i+3, got, want)
			}
		}
		for i := range others {
			if i%2 == 1 && others[i] != (Document{}) {
				t.Fatalf("the document after argument %d changed to %+v", i/2, others[i])
			}
		}
	}
}

// TestBatchesTakeTurns tests that a batch waits for a turn if all turns are taken, that it can be
// cancelled while it waits, and that it returns its turn.
func TestBatchesTakeTurns(t *testing.T) {
	x := openMem(t, Options{Durability: NoSync})
	for range cap(x.turns) {
		x.turns <- struct{}{}
	}
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := x.CheckAndAddBatch(short, Strangers(2))
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a batch that waits for its turn: %v", err)
	}
	<-x.turns
	_, err = x.CheckAndAddBatch(t.Context(), Strangers(2))
	if must(t, err); len(x.turns) != cap(x.turns)-1 {
		t.Errorf("%d of %d turns are taken after a batch", len(x.turns), cap(x.turns))
	}
}

// TestCancelledQueryEnds tests that a query that would scan all entries, and a query that would
// make a million probes, stop if the context is cancelled.
func TestCancelledQueryEnds(t *testing.T) {
	for _, table := range []plan.Table{{Prefix: 1, Radius: 1}, {Prefix: 34, Radius: 6}} {
		table.Permutation = plan.Permutation{{First: 0, Last: 63}}
		x := openMem(t, Options{Durability: NoSync})
		must(t, x.Add(t.Context(), Strangers(checkEvery+1)...))
		everything := filter.NewLiveSet(0)
		everything.Add(0)
		x.state.Load().live[0].LiveSet = everything
		x.plan = &plan.Plan{MaxDistance: table.Radius, Tables: []plan.Table{table}}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		r := x.reader()
		if _, err := r.search(ctx, 0, 1); !errors.Is(err, context.Canceled) {
			t.Errorf("%v: %v", x.plan, err)
		}
		must(t, r.close(), x.Close())
	}
}
