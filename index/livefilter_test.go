package index

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/neardup/neardup/index/filter"
	"github.com/neardup/neardup/index/plan"
	"pgregory.net/rapid"
)

var livePlans = []string{
	"k=0 0-63/64",
	"k=3 0-63/32~1 32-63,0-31/32~1",
	"k=3 0-63/16 16-31,0-15,32-63/16 32-47,0-31,48-63/16 48-63,0-47/16",
	"k=3 0-63/20 20-39,0-19,40-63/20 40-63,0-39/24~1",
	"k=2 0-63/32~1 32-63,0-31/20",
}

// hashedPlans are those whose live fingerprints are hashed as well.
var hashedPlans = []string{
	"k=6 0-63/13 13-29,0-12,30-63/17~1 30-46,0-29,47-63/17~1 47-63,0-46/17~1",
	"k=8 0-63/21~2 21-41,0-20,42-63/21~2 42-63,0-41/22~2",
}

// checkLive fails if one of the fingerprints, or a query near it, is not let through.
func checkLive(t interface{ Fatalf(string, ...any) }, rng *rand.Rand, plan *plan.Plan, set *liveSet, fps []uint64, name string) {
	for _, fp := range fps {
		if set.empty() || !set.mayContain(fp) {
			t.Fatalf("%s: %016x is live and not found", name, fp)
		}
		k := rng.IntN(plan.MaxDistance + 1)
		near := flip(rng, fp, ^uint64(0), rng.IntN(k+1))
		if found, known := set.appendNear(nil, near, k); known && !slices.Contains(found, fp) {
			t.Fatalf("%s: %016x is live and not found within %d of %016x", name, fp, k, near)
		}
		for i, table := range plan.Tables {
			flips := uint64(0)
			if table.Radius > 0 {
				flips = 1 << (63 - rng.IntN(table.Prefix))
			}
			q := table.Permute(fp) ^ flips ^ rng.Uint64()>>table.Prefix
			if !slices.Contains(set.appendMaybe(nil, i, q, table.Radius), flips) {
				t.Fatalf("%s: %016x is live and not found in table %d from the flips %016x", name, fp, i, flips)
			}
		}
	}
}

// TestLiveFiltersProperties holds filters that grow, whose scans fail at times and
// which are made anew as at open, against the set of what is stored.
func TestLiveFiltersProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		plan, err := plan.Parse(rapid.SampledFrom(slices.Concat(livePlans, hashedPlans)).Draw(t, "plan"))
		if err != nil {
			t.Fatalf("%v", err)
		}
		seed := rapid.Uint64().Draw(t, "seed")
		rng := rand.New(rand.NewPCG(seed, 0))
		budget := rapid.SampledFrom([]int64{0, 100, 1000, 20_000, 1 << 20, 1 << 40}).Draw(t, "budget")
		least := rapid.SampledFrom([]int64{32, 100, 1000}).Draw(t, "least")
		store := newLiveStore()
		f := store.filters(plan, budget, 0, least)
		defer func() { f.close() }()
		if !f.empty() || f.bytes() > budget {
			t.Fatalf("new filters: empty is %v, %d bytes of %d", f.empty(), f.bytes(), budget)
		}
		written := false
		steps := map[string]func(*rapid.T){
			"write": func(t *rapid.T) {
				n := rapid.SampledFrom([]int{0, 1, 3, 100, 2000}).Draw(t, "n")
				store.write(f, uniform(rng, n), store.view(rng, rapid.IntRange(0, 500).Draw(t, "deletes")), nil)
				written = written || n > 0
			},
			"abandon": func(t *rapid.T) { // a commit that fails
				store.commit.Lock()
				defer store.commit.Unlock()
				f.add(uniform(rng, 50))
				written = true
			},
			"fail":   func(t *rapid.T) { store.set(errLiveScan, nil) },
			"mend":   func(t *rapid.T) { store.set(nil, nil) },
			"settle": func(t *rapid.T) { store.settle(t, f) },
			"open": func(t *rapid.T) {
				f.close()
				live := int64(len(store.visible))
				if live > 0 {
					live = rapid.SampledFrom([]int64{1, live, 20 * live}).Draw(t, "live")
				}
				f, written = store.filters(plan, budget, live, least), live > 0
			},
			"": func(t *rapid.T) {
				if !written && !f.empty() {
					t.Fatalf("not empty, and nothing was written")
				}
				checkLive(t, rng, plan, f.current(), store.view(rng, 20), fmt.Sprintf("seed %d", seed))
			},
		}
		t.Repeat(steps)
		store.settle(t, f)
		checkLive(t, rng, plan, f.current(), store.visible, fmt.Sprintf("seed %d", seed))
		if f.bytes() > budget {
			t.Fatalf("%d bytes of %d", f.bytes(), budget)
		}
	})
}

// TestLiveFiltersGrowUnderWork writes, deletes and asks at once, with filters that
// grow all the while. Everything that a view has must be let through by the
// filters that go with it, as long as the view is open.
func TestLiveFiltersGrowUnderWork(t *testing.T) {
	for i, text := range slices.Concat(livePlans, hashedPlans) {
		plan, seed := mustParse(t, text), uint64(100+i)
		store := newLiveStore(uniform(rand.New(rand.NewPCG(seed, 0)), 500)...)
		f := store.filters(plan, 1<<30, 500, 64)
		var writing atomic.Int32
		var wg sync.WaitGroup
		const writers, readers = 2, 2
		writing.Store(writers)
		for w := range writers {
			wg.Go(func() {
				defer writing.Add(-1)
				rng := rand.New(rand.NewPCG(seed, uint64(1+w)))
				for range 16 {
					for range 10 {
						store.write(f, uniform(rng, 1+rng.IntN(200)), store.view(rng, rng.IntN(60)), runtime.Gosched)
					}
					store.settle(errorer{t}, f)
				}
			})
		}
		for r := range readers {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(seed, uint64(10+r)))
				for writing.Load() > 0 && !t.Failed() {
					before := f.current()
					view := store.view(rng, 20)
					set := f.since(before)
					if rng.IntN(4) == 0 {
						time.Sleep(time.Millisecond)
					}
					checkLive(errorer{t}, rng, plan, set, view, fmt.Sprintf("seed %d, %s", seed, text))
				}
			})
		}
		wg.Wait()
		store.settle(t, f)
		checkLive(t, rand.New(rand.NewPCG(seed, 99)), plan, f.current(), store.visible, text)
		if scans := store.scanned(); i <= 1 && scans < 4 {
			t.Errorf("%s: %d scans: the filters did not grow", text, scans)
		}
		f.close()
		if len(store.failures) > 0 {
			t.Errorf("%s: %v", text, store.failures)
		}
	}
}

// errorer is for goroutines, which must not call Fatalf.
type errorer struct{ t *testing.T }

func (e errorer) Fatalf(format string, args ...any) { e.t.Errorf(format, args...) }

// TestLiveFiltersLateCommit lets the filters grow while a commit that has added
// is not visible yet: a scan then must not begin.
func TestLiveFiltersLateCommit(t *testing.T) {
	plan, rng := mustParse(t, livePlans[1]), rand.New(rand.NewPCG(51, 0))
	store := newLiveStore()
	f := store.filters(plan, 1<<20, 0, 64)
	defer f.close()
	store.write(f, uniform(rng, 50), nil, nil)
	late := uniform(rng, 100) // these make the filters grow
	store.write(f, late, nil, func() { time.Sleep(30 * time.Millisecond) })
	waitFor(t, "a scan", func() bool { return store.scanned() > 0 })
	store.settle(t, f)
	if f.current().capacity <= 64 {
		t.Fatal("the filters did not grow")
	}
	checkLive(t, rng, plan, f.current(), late, "late commit")
}

// TestLiveFiltersWriteDuringScan commits after the scan's snapshot was taken,
// from within and from without, and until the larger filters are overfull again.
func TestLiveFiltersWriteDuringScan(t *testing.T) {
	plan, rng := mustParse(t, livePlans[1]), rand.New(rand.NewPCG(52, 0))
	store := newLiveStore(uniform(rng, 1000)...)
	begun, goOn := make(chan struct{}), make(chan struct{})
	store.set(nil, sync.OnceFunc(func() { close(begun); <-goOn }))
	f := store.filters(plan, 1<<20, 1000, 64)
	defer f.close()
	<-begun
	during := uniform(rng, 5000)
	for part := range slices.Chunk(during, 100) {
		store.write(f, part, nil, nil)
	}
	q := rng.Uint64()
	if f.empty() || !f.mayContain(q) || len(f.appendMaybe(nil, 1, q, 1)) != 33 || len(f.appendMaybe([]uint64{1}, 0, q, 0)) != 2 {
		t.Error("filters that are not ready say no")
	}
	close(goOn)
	waitFor(t, "filters for all", func() bool {
		store.commit.Lock()
		defer store.commit.Unlock()
		return !f.growing && f.current().capacity >= 6000
	})
	checkLive(t, rng, plan, f.current(), store.visible, "written during the scan")
	if left := strangersLeft(f, plan, rng, 1000); left > 0.2 {
		t.Errorf("%.3f probes of a stranger left", left)
	}
}

// strangersLeft is how many probes the filters leave of a query at random.
func strangersLeft(f *liveFilters, plan *plan.Plan, rng *rand.Rand, queries int) float64 {
	var dst []uint64
	for range queries {
		q := rng.Uint64()
		for i, table := range plan.Tables {
			dst = f.appendMaybe(dst, i, table.Permute(q), table.Radius)
		}
	}
	return float64(len(dst)) / float64(queries)
}

// TestLiveFiltersOldView: filters made from a scan after a delete do not know what
// a view from before it still shows.
func TestLiveFiltersOldView(t *testing.T) {
	plan, rng := mustParse(t, livePlans[0]), rand.New(rand.NewPCG(53, 0))
	store := newLiveStore()
	f := store.filters(plan, 1<<20, 0, 64)
	defer f.close()
	old := uniform(rng, 20)
	store.write(f, old, nil, nil)
	before := f.current() // and a view
	store.write(f, nil, old, nil)
	store.write(f, uniform(rng, 500), nil, nil)
	store.settle(t, f)
	checkLive(t, rng, plan, before, old, "view from before")
	checkLive(t, rng, plan, f.since(before), old, "view while the filters were replaced")
	if f.since(f.current()) != f.current() {
		t.Error("filters that did not change are not those to take")
	}
	forgotten := 0
	for _, fp := range old {
		if !f.mayContain(fp) {
			forgotten++
		}
	}
	if forgotten == 0 {
		t.Error("what is deleted is never forgotten: this test sees nothing")
	}
}

func TestLiveFiltersScanFails(t *testing.T) {
	plan, rng := mustParse(t, livePlans[1]), rand.New(rand.NewPCG(54, 0))
	store := newLiveStore()
	f := store.filters(plan, 1<<20, 0, 100)
	defer f.close()
	store.set(errLiveScan, nil)
	store.write(f, uniform(rng, 101), nil, nil)
	store.settle(t, f)
	if n := store.scanned(); n != 1 {
		t.Fatalf("%d scans", n)
	}
	store.write(f, uniform(rng, 99), nil, nil)
	store.settle(t, f)
	if n := store.scanned(); n != 1 {
		t.Errorf("scanned again too soon: %d scans", n)
	}
	checkLive(t, rng, plan, f.current(), store.visible, "after a scan that failed")
	if f.bytes() != f.current().bytes() || f.current().capacity != 100 {
		t.Errorf("%d bytes for %d", f.bytes(), f.current().capacity)
	}
	store.set(nil, nil)
	store.write(f, uniform(rng, 2), nil, nil)
	store.settle(t, f)
	if n := store.scanned(); n != 2 || f.current().capacity < 202 {
		t.Errorf("%d scans, filters for %d", n, f.current().capacity)
	}
	checkLive(t, rng, plan, f.current(), store.visible, "after a scan that did not fail")
	waitFor(t, "the failure to be told", func() bool { store.mu.Lock(); defer store.mu.Unlock(); return len(store.failures) > 0 })
	if len(store.failures) != 1 || !errors.Is(store.failures[0], errLiveScan) {
		t.Errorf("failures: %v", store.failures)
	}
}

// TestLiveFiltersFirstScanFails: nothing is known of what is stored, and adds
// bring the next attempt.
func TestLiveFiltersFirstScanFails(t *testing.T) {
	plan, rng := mustParse(t, livePlans[1]), rand.New(rand.NewPCG(55, 0))
	store := newLiveStore(uniform(rng, 300)...)
	store.set(errLiveScan, nil)
	f := store.filters(plan, 1<<20, 300, 100)
	defer f.close()
	store.settle(t, f)
	if f.empty() || len(f.appendMaybe(nil, 0, 0, 1)) != 33 {
		t.Error("filters that know nothing say no")
	}
	store.set(nil, nil)
	store.write(f, uniform(rng, 101), nil, nil)
	store.settle(t, f)
	checkLive(t, rng, plan, f.current(), store.visible, "after the second scan")
	if left := strangersLeft(f, plan, rng, 1000); left > 0.2 {
		t.Errorf("%.3f probes of a stranger left", left)
	}
}

func TestLiveFiltersClose(t *testing.T) {
	plan, rng := mustParse(t, livePlans[1]), rand.New(rand.NewPCG(56, 0))
	store := newLiveStore(uniform(rng, 5000)...)
	begun, goOn := make(chan struct{}), make(chan struct{})
	store.set(nil, func() { close(begun); <-goOn })
	f := store.filters(plan, 1<<20, 5000, 64)
	<-begun
	closed := make(chan struct{})
	go func() { f.close(); f.close(); close(closed) }()
	waitFor(t, "close", f.stopped)
	select {
	case <-closed:
		t.Fatal("close did not wait for the scan")
	default:
	}
	close(goOn)
	<-closed
	if store.yielded > 1024 {
		t.Errorf("the scan went on to %d after close", store.yielded)
	}
	store.write(f, uniform(rng, 5000), nil, nil)
	store.write(f, uniform(rng, 5000), nil, nil)
	checkLive(t, rng, plan, f.current(), store.visible, "closed")
	if f.next.Load() != nil || store.scans != 1 || len(store.failures) != 0 {
		t.Errorf("work goes on after close: %d scans, %v", store.scans, store.failures)
	}
	store.filters(plan, 1<<20, 0, 0).close()
}

// TestLiveFiltersBudget holds the memory against the budget and against what is
// promised for each fingerprint, with as many as are live at the end of each step.
func TestLiveFiltersBudget(t *testing.T) {
	for _, text := range livePlans {
		for _, budget := range []int64{0, 63, 1000, 9000, 100_000, 1 << 40} {
			plan, rng := mustParse(t, text), rand.New(rand.NewPCG(57, 0))
			store := newLiveStore()
			f := store.filters(plan, budget, 0, 256)
			for range 12 {
				store.write(f, uniform(rng, 1000), nil, nil)
				store.settle(t, f)
				bytes, promise := f.bytes(), int64(len(plan.Tables)*4*len(store.visible))
				if bytes > budget || bytes > promise {
					t.Errorf("%s: %d bytes for %d with a budget of %d", text, bytes, len(store.visible), budget)
				}
			}
			checkLive(t, rng, plan, f.current(), store.view(rng, 500), text)
			// More memory than half of the budget is there to be used, unless all is exact.
			if c := f.current(); budget >= 1000 && budget < 1<<17 && !c.exact() && f.bytes() < min(budget/2, 24_000) {
				t.Errorf("%s: %d bytes of %d", text, f.bytes(), budget)
			}
			f.close()
		}
	}
}

// TestLiveFiltersFit opens with a wrong guess, and deletes as much as is written:
// neither lets the filters take more memory than what is live needs, or less.
func TestLiveFiltersFit(t *testing.T) {
	plan, rng := mustParse(t, livePlans[1]), rand.New(rand.NewPCG(58, 0))
	fits := func(name string, f *liveFilters, store *liveStore) {
		t.Helper()
		n := int64(len(store.visible))
		if c := f.current().capacity; c < n || c > 2*n+1024 {
			t.Errorf("%s: filters for %d, %d are live", name, c, n)
		}
		checkLive(t, rng, plan, f.current(), store.visible, name)
	}
	store := newLiveStore(uniform(rng, 5000)...)
	for _, guess := range []int64{1, 1000, 5000, 200_000} {
		f := store.filters(plan, 1<<30, guess, 64)
		store.settle(t, f)
		fits(fmt.Sprintf("guess %d", guess), f, store)
		f.close()
	}
	before := store.scanned()
	f := store.filters(plan, 1<<30, 5000, 64)
	defer f.close()
	const rounds, batch = 200, 500
	for range rounds {
		store.write(f, uniform(rng, batch), slices.Clone(store.visible[:batch]), nil)
		store.settle(t, f)
	}
	fits("churn", f, store)
	// Each time at least 2500 were written, and two scans do.
	if scans := store.scanned() - before; scans > 1+2*rounds*batch/2500 {
		t.Errorf("churn: %d scans", scans)
	}
}

// TestSavedFilterIsCompletedOrMadeAnew: where more came since a filter was saved than it is
// expected, it is not taken with a part of that missing.
func TestSavedFilterIsCompletedOrMadeAnew(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, since := range []int{0, 100, 5000} {
		old, more := uniform(rng, 3000), uniform(rng, since)
		store := newLiveStore(slices.Concat(old, more)...)
		store.set(errLiveScan, nil) // so that what the saved one lacks is not made up for
		saved, err := NewKeyFilter(3000, 0)
		if err != nil {
			t.Fatal(err)
		}
		saved.AddAll(old)
		f := newLiveFilters(liveSource{
			plan: keyPlan, budget: 1 << 20, live: 200, commit: &store.commit, scan: store.scan,
			saved: func() (*filter.Prefix, func(func(uint64) bool) error, error) {
				return saved, func(yield func(uint64) bool) error {
					for _, hash := range more {
						if !yield(hash) {
							break
						}
					}
					return nil
				}, nil
			},
			failed: func(error) {},
		})
		store.settle(errorer{t}, f)
		if since > 300 && f.current().capacity > 0 {
			t.Errorf("%d since: filters of what could not be scanned", since)
		}
		for _, hash := range slices.Concat(old, more) {
			if !f.mayContain(hash) {
				t.Fatalf("%d since: key hash %016x is stored and not found", since, hash)
			}
		}
		f.close()
	}
}

// TestQueryIsExactWhereLiveHashGivesUp: the tables answer from then on.
func TestQueryIsExactWhereLiveHashGivesUp(t *testing.T) {
	rng := rand.New(rand.NewPCG(83, 0))
	x, oracle := openMem(t, Options{Plan: mustParse(t, hashedPlans[0]), Durability: NoSync, FilterBytes: 1 << 20}), &scanEverything{}
	given := false
	for _, set := range dataSets(rng, 4096) {
		fill(t, x, oracle, set.fps, 1000)
		checkQueries(t, x, oracle, queriesFor(rng, oracle.fps, 8, 6), 6)
		_, known := x.live.current().appendNear(nil, 0, 6)
		given = given || !known
	}
	if !given {
		t.Error("all of it was hashed")
	}
}
