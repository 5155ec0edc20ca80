package index

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/internal/filter"
	"github.com/neardup/neardup/internal/plan"
	"github.com/neardup/neardup/internal/testing/testenv"
	"github.com/neardup/neardup/internal/testing/testgen"
	"github.com/neardup/neardup/internal/testing/testhook"
	"golang.org/x/sync/errgroup"
)

// TestCloseDuringWork closes an index under load. Every call must end with its result or
// ErrClosed, and acknowledged documents must be stored.
func TestCloseDuringWork(t *testing.T) {
	ctx := context.Background()
	for round := range 5 {
		fs := vfs.NewMem()
		x, err := Open("index", &Options{FS: fs})
		must(t, err)
		var wg sync.WaitGroup
		var added atomic.Int64
		for w := range 8 {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(round), uint64(w)))
				for {
					var err error
					switch w {
					case 0:
						_, err = x.Query(ctx, nearTo(fingerprint.Fingerprint(rng.Uint64())))
					case 1:
						for _, e := range x.Documents(ctx) {
							err = e
						}
					case 2:
						for _, e := range x.QueryBatch(ctx, make([]Query, 200)) {
							err = e
						}
					case 3:
						x.Stats()
						_, err = x.Delete(ctx, "nobody's")
					default:
						if err = x.Add(ctx,
							Document{Fingerprint: fingerprint.Fingerprint(
								rng.Uint64())}); err == nil {
							added.Add(1)
						}
					}
					if errors.Is(err, ErrClosed) {
						return
					}
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		time.Sleep(10 * time.Millisecond)
		must(t, x.Close())
		wg.Wait()
		if err := x.Close(); !errors.Is(err, ErrClosed) {
			t.Errorf("second Close: %v", err)
		}
		if s := x.Stats(); s != (Stats{}) {
			t.Errorf("stats of a closed index: %+v", s)
		}
		x = openMem(t, Options{FS: fs})
		if s := x.Stats(); s.Documents != uint64(added.Load()) {
			t.Errorf("%d documents of %d", s.Documents, added.Load())
		}
	}
}

// TestCancelledQueryEnds cancels a query that would scan all entries, and one that makes a
// million probes.
func TestCancelledQueryEnds(t *testing.T) {
	for _, table := range []plan.Table{{Prefix: 1, Radius: 1}, {Prefix: 34, Radius: 6}} {
		table.Permutation = plan.Permutation{{First: 0, Last: 63}}
		p := &plan.Plan{MaxDistance: table.Radius, Tables: []plan.Table{table}}
		x := openMem(t, Options{Durability: NoSync})
		fill(t, x, testgen.Uniform(rand.New(rand.NewPCG(1, 1)), checkEvery+1), 50_000)
		everything := filter.NewLiveSet(0)
		everything.Add(0)
		s := x.state.Load()
		x.plan, s.live[0].LiveSet = p, everything
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		r := x.reader()
		if _, err := r.search(ctx, 0, 1); !errors.Is(err, context.Canceled) {
			t.Errorf("%v: %v", p, err)
		}
		must(t, r.close(), x.Close())
	}
}

func panicIn[T any](loop iter.Seq2[T, error]) {
	for range loop {
		panic("of the caller")
	}
}

// TestLoopsThatBreak leaves the loops of QueryBatch and Documents early, and all loops by a
// panic. No goroutine may remain, and Close must not wait.
func TestLoopsThatBreak(t *testing.T) {
	ctx := context.Background()
	before := runtime.NumGoroutine()
	x, err := Open("index", &Options{FS: vfs.NewMem(), Durability: NoSync})
	must(t, err)
	fill(t, x, make([]uint64, 500), 500)
	must(t, x.Add(ctx, Document{Key: "a"}))
	for n := 0; n < 150; n += testenv.Number(7, 1, 1, 1) {
		i := 0
		for a, err := range x.QueryBatch(testhook.WithScannedBatches(ctx, n%2 == 0),
			slices.Repeat([]Query{{Limit: 1}}, 140)) {
			if err != nil || a.Query != i {
				t.Fatal(a, err)
			}
			if i++; i > n {
				break
			}
		}
	}
	for n := range 3 {
		i := 0
		for _, err := range x.Documents(ctx) {
			must(t, err)
			if i++; i > n {
				break
			}
		}
	}
	for _, loop := range []func(){
		func() { panicIn(x.Documents(ctx)) },
		func() { panicIn(x.Pairs(ctx, JoinOptions{})) },
		func() { panicIn(x.Clusters(ctx, JoinOptions{})) },
		func() { panicIn(x.QueryBatch(ctx, make([]Query, 200))) },
		func() {
			panicIn(x.QueryBatch(testhook.WithScannedBatches(ctx, true), make([]Query, 200)))
		},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("a loop did not begin")
				}
			}()
			loop()
		}()
	}
	must(t, x.Close())
	testenv.NoMoreGoroutines(t, before)
}

// TestWaitingCallsShareATurn tests calls of one document that wait for a turn. They share windows,
// and each gets the verdict of its own document, also if their keys are equal or the call with the
// turn is cancelled. The arguments of callers do not change.
func TestWaitingCallsShareATurn(t *testing.T) {
	const calls = 4 * groupLimit
	for _, cancelled := range []bool{false, true} {
		x := openMem(t, Options{Durability: NoSync})
		for range cap(x.turns) {
			x.turns <- struct{}{}
		}
		others := make([]Document, 2*calls) // every call has the documents of others after its own
		statuses := make([]Status, calls)
		var group errgroup.Group
		for i := range calls {
			// Of four calls, the fingerprints are equal, or the keys, or neither.
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
					ctx = testhook.NewCountdown(4) // is cancelled within the window of this call
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
		// 95 without windows of several documents
		if n := x.applied.Load() - applied; !cancelled && n >= calls*2/3 {
			t.Errorf("%d calls made %d changes", calls, n)
		}
		for i := 0; i < calls; i += 4 {
			var count [Known + 1]int
			for _, s := range statuses[i : i+4] {
				count[s]++
			}
			later, first := []Status{Duplicate, Known, New}[i/4%3], 1
			if later == New {
				first = 0
			}
			if count[New] == 0 || first+count[later]+count[0] != 4 || !cancelled && count[0] > 0 {
				t.Errorf("%d to %d: %v", i, i+3, statuses[i:i+4])
			}
		}
		for i := range others {
			if i%2 == 1 && others[i] != (Document{}) {
				t.Fatalf("the document after argument %d became %+v", i/2, others[i])
			}
		}
	}
}

// TestBatchesTakeTurns tests that a batch waits, or is cancelled, if the maximal number of
// batches is running. At the end its turn must be free.
func TestBatchesTakeTurns(t *testing.T) {
	ctx := context.Background()
	x := openMem(t, Options{Durability: NoSync})
	batch := func(ctx context.Context, n uint64) error {
		_, err := x.CheckAndAddBatch(ctx,
			[]Document{{Key: "a", Fingerprint: fingerprint.Fingerprint(n << 32)},
				{Fingerprint: fingerprint.Fingerprint(n<<32 | 0xffff)}})
		return err
	}
	for range cap(x.turns) {
		x.turns <- struct{}{}
	}
	short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	if err := batch(short, 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a batch that waits for its turn: %v", err)
	}
	done := make(chan error)
	go func() { done <- batch(ctx, 2) }()
	select {
	case err := <-done:
		t.Errorf("a batch does not wait for its turn: %v", err)
	case <-time.After(20 * time.Millisecond):
		<-x.turns
		must(t, <-done)
	}
	if taken := len(x.turns); taken != cap(x.turns)-1 {
		t.Fatalf("%d turns are taken of %d, behind a batch", taken, cap(x.turns))
	}
}
