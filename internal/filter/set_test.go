package filter

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/bits"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/neardup/neardup/internal/testing/testenv"
	"github.com/neardup/neardup/internal/testing/testgen"
	"pgregory.net/rapid"
)

// setPlan has the prefixes and radii of tables that begin at different bits.
type setPlan struct {
	k      int
	near   int64    // bytes
	tables [][3]int // first bit, prefix, radius

	unfiltered bool
}

var setPlans = []setPlan{
	{0, 0, [][3]int{{0, 64, 0}}, false},
	{3, 1 << 40, [][3]int{{0, 32, 1}, {32, 32, 1}}, false},
	{3, 0, [][3]int{{0, 16, 0}, {16, 16, 0}, {32, 16, 0}, {48, 16, 0}}, false},
	{3, 0, [][3]int{{0, 20, 0}, {20, 20, 0}, {40, 24, 1}}, false},
	{6, 1 << 40, [][3]int{{0, 13, 0}, {13, 17, 1}, {30, 17, 1}, {47, 17, 1}}, false},
	{8, 1 << 40, [][3]int{{0, 21, 2}, {21, 21, 2}, {42, 22, 2}}, false},
	{0, 1 << 40, [][3]int{{0, 64, 0}}, true},
	{6, 1 << 40, [][3]int{{0, 13, 0}, {13, 17, 1}, {30, 17, 1}, {47, 17, 1}}, true},
	{3, 1 << 40, [][3]int{{0, 32, 1}, {32, 32, 1}}, true},
}

func tablesOf(p setPlan) (tables []Table) {
	for _, t := range p.tables {
		tables = append(tables,
			Table{t[1], t[2], func(fp uint64) uint64 { return bits.RotateLeft64(fp, t[0]) }})
	}
	return tables
}

type fataler interface{ Fatalf(string, ...any) }

// errorer is for goroutines, which must not call Fatalf.
type errorer struct{ *testing.T }

func (e errorer) Fatalf(format string, args ...any) { e.Errorf(format, args...) }

// checkSet fails if the set rules out one of the fingerprints for its own query or a query near
// it.
func checkSet(t fataler, rng *rand.Rand, p setPlan, s *Set, fps []uint64, name string) {
	for _, fp := range fps {
		if s.Empty() || !s.MayContain(fp) {
			t.Fatalf("%s: %016x is there and not found", name, fp)
		}
		k := rng.IntN(p.k + 1)
		near := testgen.Flip(rng, fp, ^uint64(0), rng.IntN(k+1))
		if found, known := s.AppendNear(nil, near, k); known && !slices.Contains(found, fp) {
			t.Fatalf("%s: %016x is there and not found within %d of %016x", name, fp, k, near)
		}
		for i, table := range s.tables {
			flips := uint64(0)
			if table.Radius > 0 {
				flips = 1 << (63 - rng.IntN(table.Prefix))
			}
			permuted := table.Permute(fp)
			if !s.MayHave(i, permuted) {
				t.Fatalf("%s: table %d does not have %016x", name, i, fp)
			}
			q := permuted ^ flips ^ rng.Uint64()>>table.Prefix
			if !slices.Contains(s.AppendCandidates(nil, i, q), flips) {
				t.Fatalf("%s: %016x is there and not found in table %d from the flips %016x",
					name, fp, i, flips)
			}
		}
	}
}

// passesAll reports whether every table of a set accepts an unrelated fingerprint.
func passesAll(s *Set, rng *rand.Rand) bool {
	q := rng.Uint64()
	for i, t := range s.tables {
		if len(s.AppendCandidates(nil, i, t.Permute(q))) != len(
			AppendAll(nil, t.Prefix, t.Radius)) {
			return false
		}
	}
	return s.MayContain(q)
}

// memStore replaces the store. The changes of a commit become visible to views when the commit
// ends.
type memStore struct {
	commit sync.Mutex

	mu      sync.Mutex
	visible []uint64
}

var errScan = errors.New("scan fails")

func (m *memStore) view() []uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.visible)
}

// sample returns up to n fingerprints of one view.
func (m *memStore) sample(rng *rand.Rand, n int) (fps []uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for range min(n, len(m.visible)) {
		fps = append(fps, m.visible[rng.IntN(len(m.visible))])
	}
	return fps
}

// write adds and deletes fingerprints. It calls late after it has told the set and before the
// commit becomes visible.
func (m *memStore) write(s *Set, rng *rand.Rand, added []uint64, deleted int, late func()) {
	m.commit.Lock()
	defer m.commit.Unlock()
	s.Add(added...)
	late()
	m.mu.Lock()
	defer m.mu.Unlock()
	for range min(deleted, len(m.visible)) {
		i, last := rng.IntN(len(m.visible)), len(m.visible)-1
		m.visible[i] = m.visible[last]
		m.visible = m.visible[:last]
	}
	m.visible = append(m.visible, added...)
}

// source yields the visible fingerprints. It calls half before it yields the second half of them.
func (m *memStore) source(half func() error) Source {
	view := m.view()
	return Source{
		Expected: int64(len(view)),
		All: func(yield func(uint64, error) bool) {
			for i, fp := range view {
				if i == len(view)/2 {
					if err := half(); err != nil {
						yield(0, err)
						return
					}
				}
				if !yield(fp, nil) {
					return
				}
			}
		},
		Done: func(error) {},
	}
}

func (s *Set) settle() { s.Wait(context.Background()) }

// TestSetFindsAll compares sets with the stored fingerprints, while the sets load and grow. A set
// must accept all fingerprints of every view, including old views.
func TestSetFindsAll(t *testing.T) {
	checks := 0
	rapid.Check(t, func(t *rapid.T) {
		if checks++; testenv.Race && checks > 5 {
			return
		}
		plan := rapid.SampledFrom(setPlans).Draw(t, "plan")
		seed := rapid.Uint64().Draw(t, "seed")
		rng := rand.New(rand.NewPCG(seed, 0))
		o := Options{Tables: tablesOf(plan), Near: plan.near, Unfiltered: plan.unfiltered,
			first: 500,
			Budget: rapid.SampledFrom([]int64{0, 100, 1000, 20_000, 1 << 20, 1 << 40}).Draw(t,
				"budget")}
		store, goOn := &memStore{}, make(chan struct{})
		s := NewSet(o)
		views := [][]uint64{nil}
		check := func() {
			view := views[rng.IntN(len(views))]
			at := rng.IntN(len(view) + 1)
			checkSet(t, rng, plan, s, view[at:min(at+20, len(view))], fmt.Sprintf("seed %d", seed))
			// the budget may be exceeded between two steps of a load
			for begun := time.Now(); s.Bytes() > o.Budget; time.Sleep(time.Millisecond) {
				if time.Since(begun) > time.Minute {
					t.Fatalf("%d bytes of %d", s.Bytes(), o.Budget)
				}
			}
		}
		finish := func() {
			select {
			case <-goOn:
			default:
				close(goOn)
			}
			s.settle()
		}
		defer func() { finish(); s.Close() }()
		t.Repeat(map[string]func(*rapid.T){
			"write": func(t *rapid.T) {
				n := rapid.SampledFrom([]int{0, 1, 3, 100, 2000, 2000}).Draw(t, "n")
				store.write(s, rng, testgen.Uniform(rng, n),
					rapid.IntRange(0, 500).Draw(t, "deletes"), func() {})
				views = append(views, store.view())
			},
			// a commit that fails
			"abandon": func(t *rapid.T) { s.Add(testgen.Uniform(rng, 50)...) },
			"loaded":  func(t *rapid.T) { finish() },
			"open": func(t *rapid.T) {
				finish()
				s.Close()
				now := make(chan struct{})
				goOn = now
				var err error
				if rapid.IntRange(0, 4).Draw(t, "fails") == 0 {
					err = errScan
				}
				o.Source = store.source(func() error { <-now; return err })
				if o.Expected > 0 {
					o.Expected = rapid.SampledFrom([]int64{1, o.Expected, 20 * o.Expected}).Draw(t,
						"expected")
				}
				s, views = NewSet(o), [][]uint64{store.view()}
			},
			"": func(t *rapid.T) { check() },
		})
		finish()
		check()
	})
}

// TestSetUnderWork loads, writes, deletes and queries concurrently.
func TestSetUnderWork(t *testing.T) {
	for i, plan := range setPlans {
		seed := uint64(100 + i)
		store := &memStore{visible: testgen.Uniform(rand.New(rand.NewPCG(seed, 0)), 2000)}
		var writes atomic.Int32
		s := NewSet(Options{Tables: tablesOf(plan), Near: plan.near, Unfiltered: plan.unfiltered,
			Budget: 1 << 30, first: 500, Source: store.source(func() error {
				for writes.Load() < 20 {
					time.Sleep(time.Millisecond)
				}
				return nil
			})})
		var writers, readers sync.WaitGroup
		var stop atomic.Bool
		for w := range 2 {
			writers.Go(func() {
				rng := rand.New(rand.NewPCG(seed, uint64(1+w)))
				for range testenv.Number(15, 60, 60, 600) {
					store.write(s, rng, testgen.Uniform(rng, 1+rng.IntN(400)), rng.IntN(60),
						runtime.Gosched)
					writes.Add(1)
				}
			})
		}
		for r := range 2 {
			readers.Go(func() {
				rng := rand.New(rand.NewPCG(seed, uint64(10+r)))
				for !stop.Load() && !t.Failed() {
					view := store.sample(rng, 20)
					if rng.IntN(4) == 0 {
						time.Sleep(time.Millisecond)
					}
					checkSet(errorer{t}, rng, plan, s, view, fmt.Sprintf("seed %d", seed))
				}
			})
		}
		writers.Wait()
		stop.Store(true)
		readers.Wait()
		s.settle()
		if !s.loaded.Load() {
			t.Error("it never loaded")
		}
		checkSet(t, rand.New(rand.NewPCG(seed, 99)), plan, s, store.visible,
			fmt.Sprintf("seed %d", seed))
		s.Close()
	}
}

// strangersLeft returns the number of probes of a random query that a set does not rule out.
func strangersLeft(s *Set, rng *rand.Rand) float64 {
	const queries = 1000
	var dst []uint64
	for range queries {
		q := rng.Uint64()
		for i, t := range s.tables {
			dst = s.AppendCandidates(dst, i, t.Permute(q))
		}
	}
	return float64(len(dst)) / queries
}

// TestSetLoads tests that a set accepts everything until it is loaded, and forever if the load
// fails or is cancelled. A loaded set must accept few unrelated fingerprints.
func TestSetLoads(t *testing.T) {
	rng := rand.New(rand.NewPCG(52, 0))
	for _, c := range []struct {
		name string
		err  error
	}{{"loads", nil}, {"fails", errScan}, {"closed", nil}} {
		store := &memStore{visible: testgen.Uniform(rng, 5000)}
		begun, goOn := make(chan struct{}), make(chan struct{})
		o := Options{Tables: tablesOf(setPlans[1]), Budget: 1 << 30}
		o.Source = store.source(func() error { close(begun); <-goOn; return c.err })
		var told []error
		o.Done = func(err error) { told = append(told, err) }
		s := NewSet(o)
		<-begun
		store.write(s, rng, testgen.Uniform(rng, 5000), 100, func() {})
		if !passesAll(s, rng) || s.Empty() {
			t.Errorf("%s: a set that is not loaded says no", c.name)
		}
		if c.name == "closed" {
			s.cancel()
		}
		close(goOn)
		s.settle()
		if c.name != "loads" != passesAll(s, rng) {
			t.Errorf("%s: it passes all: %v", c.name, passesAll(s, rng))
		}
		if left := strangersLeft(s, rng); c.name == "loads" && left > 0.2 {
			t.Errorf("%.3f probes of a stranger left", left)
		}
		if len(told) != 1 || !errors.Is(told[0], c.err) {
			t.Errorf("%s: reported %v", c.name, told)
		}
		checkSet(t, rng, setPlans[1], s, store.visible, c.name)
		s.Close()
	}
	if s := NewSet(Options{Tables: tablesOf(setPlans[1]), Budget: 1 << 20}); !s.Empty() ||
		s.Bytes() != 0 || s.AppendCandidates(nil, 0, 1) != nil {
		t.Error("a set of nothing has something")
	}
}

// TestSetLoadsSavedFilters tests that saved filters are used together with fingerprints that were
// added later. Unusable filters must be built again, for any number of tables.
func TestSetLoadsSavedFilters(t *testing.T) {
	rng, more := rand.New(rand.NewPCG(1, 1)), 100_000
	if testenv.Race {
		more = 5000
	}
	old, since, later := testgen.Uniform(rng, 3000), testgen.Uniform(rng, 500),
		testgen.Uniform(rng, more)
	counted := func(calls *int, fps ...[]uint64) iter.Seq2[uint64, error] {
		return func(yield func(uint64, error) bool) {
			*calls++
			testgen.Sequence(slices.Concat(fps...))(yield)
		}
	}
	for broken := range 4 { // a mask of the tables without a saved filter
		tables, all, sinces := tablesOf(setPlans[1]), 0, 0
		saved := func(table int) iter.Seq2[[]byte, error] {
			if broken>>table&1 != 0 {
				return func(func([]byte, error) bool) {}
			}
			f := NewPacked(32, 2, 3000, 0)
			for _, fp := range old {
				f.Add(tables[table].Permute(fp))
			}
			return chunksOf(f)
		}
		s := NewSet(Options{Tables: tables, Budget: 1 << 30, Source: Source{
			Expected: 3000, Saved: saved, All: counted(&all, old, since),
			Since: counted(&sinces, since), Done: func(err error) {
				if err != nil {
					t.Error(err)
				}
			},
		}})
		s.Add(later...)
		s.settle()
		name := fmt.Sprintf("broken %b", broken)
		checkSet(t, rng, setPlans[1], s, slices.Concat(old, since, later), name)
		if (all == 1) != (broken != 0) || (sinces == 1) != (broken != 3) ||
			strangersLeft(s, rng) > 0.2 {
			t.Errorf("%s: %d full scans, %d scans of later fingerprints; %.3f probes left", name,
				all, sinces, strangersLeft(s, rng))
		}
		s.Close()
	}
	s := NewSet(Options{Tables: []Table{{4, 1, nil}}, Budget: 1 << 20,
		Source: Source{Expected: 100, Saved: func(int) iter.Seq2[[]byte, error] {
			panic("a filter that would pass everything is asked for")
		}, Done: func(error) {}}})
	s.settle()
	if got := s.AppendCandidates(nil, 0, 0); len(got) != 5 {
		t.Errorf("%d of 5 prefixes pass", len(got))
	}
}

// TestSetSearchesStoredFingerprints compares the search of a set with a scan. The filters were
// saved or not, and fingerprints are added while the set loads. If they do not fit in memory, the
// set must report that.
func TestSetSearchesStoredFingerprints(t *testing.T) {
	const seed = 91
	rng := rand.New(rand.NewPCG(seed, 0))
	for _, same := range []uint64{0, 0xffff, 0xffff_ffff_0000_0000} {
		for _, n := range []int{1, maxFew, maxFew + 1, 3 * maxFew} {
			for _, room := range []int64{1 << 40, -1, 0} {
				for _, saved := range []bool{true, false} {
					checkStored(t, rng, same, n, room, saved,
						fmt.Sprintf("seed %d, saved %v", seed, saved))
				}
			}
		}
	}
}

// checkStored makes a set of n fingerprints that share some bits, with room bytes for the search.
// If room is -1, it is one byte less than needed.
func checkStored(
	t *testing.T, rng *rand.Rand, same uint64, n int, room int64, saved bool, name string,
) {
	const k = 3
	fps := testgen.Uniform(rng, n)
	for i := range fps {
		if fps[i] &^= same; i%3 == 2 {
			fps[i] = testgen.Flip(rng, fps[i-1], ^uint64(0), rng.IntN(5))
		}
	}
	slices.Sort(fps)
	fps = slices.Compact(fps)
	if room < 0 {
		room = hashTablesBytes + int64(len(fps))*8*hashBlocks - 1
	}
	plan, added := setPlans[1], testgen.Uniform(rng, 100)
	o := Options{Tables: tablesOf(plan), Near: room, Budget: 1 << 40, Source: Source{
		Expected: int64(len(fps)),
		All:      testgen.Sequence(fps),
		Done:     func(error) {},
	}}
	if saved {
		o.Saved = func(table int) iter.Seq2[[]byte, error] {
			f := NewPacked(plan.tables[table][1], len(plan.tables), int64(len(fps)), 0)
			for _, fp := range fps {
				f.Add(tablesOf(plan)[table].Permute(fp))
			}
			return chunksOf(f)
		}
	}
	s := NewSet(o)
	s.Add(added...)
	name += fmt.Sprintf(", %d alike in %016x, room for %d", len(fps), same, room)
	checkSet(t, rng, plan, s, added, name)
	s.settle()
	all := slices.Concat(fps, added)
	checkSet(t, rng, plan, s, all[max(0, len(all)-300):], name)
	for range 50 {
		q := testgen.Flip(rng, all[rng.IntN(len(all))], ^uint64(0), rng.IntN(k+2))
		found, known := s.AppendNear(nil, q, k)
		slices.Sort(found)
		if known && !slices.Equal(found, nearOf(all, q, k)) {
			t.Fatalf("%s: %016x near to %016x, want %016x", name, found, q, nearOf(all, q, k))
		}
		if fits := room == 1<<40; known != fits && (fits || len(fps) > maxFew || room == 0) {
			t.Fatalf("%s: the set can search near fingerprints: %v", name, known)
		}
	}
	s.Close()
}

// TestSetLoadsAfterAnother tests that a set reads nothing before a more urgent set is loaded. It
// must accept everything until then.
func TestSetLoadsAfterAnother(t *testing.T) {
	goOn := make(chan struct{})
	urgent := NewSet(Options{Tables: tablesOf(setPlans[0]), Budget: 1 << 20, Source: Source{
		Expected: 1,
		All:      func(yield func(uint64, error) bool) { <-goOn; yield(1, nil) },
		Done:     func(error) {},
	}})
	defer urgent.Close()
	for _, closed := range []bool{true, false} {
		s := NewSet(Options{Tables: tablesOf(setPlans[0]), Budget: 1 << 20, Source: Source{
			Expected: 1,
			All: func(yield func(uint64, error) bool) {
				select {
				case <-goOn:
				default:
					t.Error("it is read too early")
				}
				yield(2, nil)
			},
			Done: func(err error) {
				if err != nil {
					t.Error(err)
				}
			},
			After: urgent,
		}})
		time.Sleep(5 * time.Millisecond)
		if !s.MayContain(3) {
			t.Error("it says no before it is loaded")
		}
		if !closed {
			close(goOn)
			if s.settle(); s.MayContain(3) || !s.MayContain(2) {
				t.Error("it is not loaded in the end")
			}
		}
		s.Close()
	}
}

// TestSetBudget compares the memory with the budget and with the documented bytes per
// fingerprint. Repeated writes of one fingerprint must take no memory.
func TestSetBudget(t *testing.T) {
	skipUnderRace(t)
	for i, plan := range setPlans[:4] {
		for _, budget := range []int64{0, 63, 1000, 9000, 100_000, 3 << 20, 1 << 40} {
			rng := rand.New(rand.NewPCG(57, 0))
			s, most := NewSet(Options{Tables: tablesOf(plan), Budget: budget}), int64(200_000)
			if budget == 3<<20 || os.Getenv("NEARDUP_CI") != "" {
				most = 400_000
			}
			last := testgen.Uniform(rng, 20_000)
			for n := int64(20_000); n <= most; n += 20_000 {
				s.Add(last...)
				bytes, promise := s.Bytes(),
					int64(len(plan.tables))*(n*25/2+firstGeneration*5/2+smallArray)
				if bytes > budget || bytes > promise {
					t.Errorf("plan %d: %d bytes for %d with a budget of %d", i, bytes, n, budget)
				}
				if s.Add(last...); s.Bytes() != bytes {
					t.Errorf("plan %d: %d bytes for the same as %d", i, s.Bytes(), bytes)
				}
				checkSet(t, rng, plan, s, last[:50], "the newest")
				last = testgen.Uniform(rng, 20_000)
			}
			if i < 2 && budget >= 1000 && budget <= 3<<20 && s.Bytes() < budget/3 {
				t.Errorf("plan %d: %d bytes of %d", i, s.Bytes(), budget)
			}
		}
	}
}

// TestSavedFilterGrows tests that a saved filter does not exceed its size when fingerprints are
// added.
func TestSavedFilterGrows(t *testing.T) {
	skipUnderRace(t)
	const n, budget = 300_000, 256 << 20
	saved, rng := New(64, n, budget), rand.New(rand.NewPCG(1, 1))
	for range n {
		saved.Add(rng.Uint64())
	}
	s := NewSet(Options{
		Tables: []Table{{Prefix: 64, Permute: func(hash uint64) uint64 { return hash }}},
		Budget: budget,
		Source: Source{
			Expected: n,
			Saved:    func(int) iter.Seq2[[]byte, error] { return chunksOf(saved) },
			Done:     func(error) {},
		},
	})
	defer s.Close()
	s.settle()
	for range 8 * n {
		s.Add(rng.Uint64())
	}
	wrong := 0
	for range 100_000 {
		if s.MayContain(rng.Uint64()) {
			wrong++
		}
	}
	if wrong > 1000 {
		t.Errorf("%d of 100,000 strangers pass with eight times as many as were saved", wrong)
	}
}
