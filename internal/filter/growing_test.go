package filter

import (
	"context"
	"errors"
	"fmt"
	"iter"
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

// growingSet is what a LiveSet and a KeySet have in common.
type growingSet interface {
	Add(...uint64)
	MayContain(uint64) bool
	Bytes() int64
	Wait(context.Context) error
	Close()
}

// source has the fingerprints, or hashes, that are stored when a set is made.
type source struct {
	expected int64
	all      iter.Seq2[uint64, error]
	done     func(error)
}

func noChunks(func([]byte, error) bool) {}

// growingSets makes the sets, which have no stored filters.
var growingSets = map[string]func(budget int64, stored source) growingSet{
	"live": func(budget int64, stored source) growingSet {
		s := NewLiveSet(budget)
		if stored.expected > 0 {
			s.Load(stored.all, stored.done)
		}
		return s
	},
	"keys": func(budget int64, stored source) growingSet {
		return NewKeySet(KeyOptions{Budget: budget, Expected: stored.expected, Saved: noChunks,
			All: stored.all, Done: stored.done, first: 500})
	},
}

type fataler interface{ Fatalf(string, ...any) }

// errorer is for goroutines, which must not call Fatalf.
type errorer struct{ *testing.T }

func (e errorer) Fatalf(format string, args ...any) { e.Errorf(format, args...) }

// checkGrowing fails if the set rules out one of the fingerprints for its own query or a query near
// it.
func checkGrowing(t fataler, rng *rand.Rand, s growingSet, fps []uint64, name string) {
	for _, fp := range fps {
		if !s.MayContain(fp) {
			t.Fatalf("%s: %016x is there and not found", name, fp)
		}
		live, ok := s.(*LiveSet)
		if !ok {
			continue
		}
		k := rng.IntN(maxDistance + 1)
		near := testgen.Flip(rng, fp, ^uint64(0), rng.IntN(k+1))
		found, known := live.AppendNear(nil, near, k)
		if live.Empty() || known && !slices.Contains(found, fp) {
			t.Fatalf("%s: %016x is there and not found within %d of %016x", name, fp, k, near)
		}
	}
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
func (m *memStore) write(
	s growingSet, rng *rand.Rand, added []uint64, deleted int, late func(),
) {
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
func (m *memStore) source(half func() error) source {
	view := m.view()
	return source{
		expected: int64(len(view)),
		all: func(yield func(uint64, error) bool) {
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
		done: func(error) {},
	}
}

// TestGrowingSetsFindAll compares sets with the stored fingerprints, while the sets load and grow.
// A set must report all fingerprints of every view, including old views.
func TestGrowingSetsFindAll(t *testing.T) {
	checks := 0
	rapid.Check(t, func(t *rapid.T) {
		if checks++; testenv.Race && checks > 5 {
			return
		}
		newSet := growingSets[rapid.SampledFrom([]string{"live", "keys"}).Draw(t, "kind")]
		seed := rapid.Uint64().Draw(t, "seed")
		rng := rand.New(rand.NewPCG(seed, 0))
		budget := rapid.SampledFrom([]int64{0, 100, 1000, 20_000, 1 << 20, 1 << 40}).Draw(t,
			"budget")
		store, goOn := &memStore{}, make(chan struct{})
		s := newSet(budget, source{})
		views := [][]uint64{nil}
		check := func() {
			view := views[rng.IntN(len(views))]
			at := rng.IntN(len(view) + 1)
			checkGrowing(t, rng, s, view[at:min(at+20, len(view))], fmt.Sprintf("seed %d", seed))
			if s.Bytes() > budget {
				t.Fatalf("%d bytes of %d", s.Bytes(), budget)
			}
		}
		finish := func() {
			select {
			case <-goOn:
			default:
				close(goOn)
			}
			settle(s)
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
				stored := store.source(func() error { <-now; return err })
				if n := stored.expected; n > 0 {
					stored.expected = rapid.SampledFrom([]int64{1, n, 20 * n}).Draw(t, "expected")
				}
				s, views = newSet(budget, stored), [][]uint64{store.view()}
			},
			"": func(t *rapid.T) { check() },
		})
		finish()
		check()
	})
}

// TestGrowingSetsUnderWork loads, writes, deletes and queries concurrently. A set must report
// everything until it is loaded.
func TestGrowingSetsUnderWork(t *testing.T) {
	for kind, newSet := range growingSets {
		const seed = 100
		name := fmt.Sprintf("%s, seed %d", kind, seed)
		store := &memStore{visible: testgen.Uniform(rand.New(rand.NewPCG(seed, 0)), 2000)}
		var writes atomic.Int32
		var s growingSet
		made := make(chan struct{})
		s = newSet(1<<30, store.source(func() error {
			<-made
			for writes.Load() < 20 {
				if !s.MayContain(uint64(writes.Load())) {
					t.Errorf("%s: a set that is not loaded says no", name)
				}
				time.Sleep(time.Millisecond)
			}
			return nil
		}))
		close(made)
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
					checkGrowing(errorer{t}, rng, s, view, name)
				}
			})
		}
		writers.Wait()
		stop.Store(true)
		readers.Wait()
		settle(s)
		if strangers(s) > 0.01 {
			t.Errorf("%s: it never loaded", name)
		}
		checkGrowing(t, rand.New(rand.NewPCG(seed, 99)), s, store.visible, name)
		s.Close()
	}
}

// strangers returns the share of random fingerprints that a set reports.
func strangers(s growingSet) float64 {
	const all = 100_000
	rng, reported := rand.New(rand.NewPCG(3, 4)), 0
	for range all {
		if s.MayContain(rng.Uint64()) {
			reported++
		}
	}
	return float64(reported) / all
}

// TestKeySetLoadsSavedFilter tests that a stored filter is used together with the hashes that were
// added later. An unusable filter must be built again.
func TestKeySetLoadsSavedFilter(t *testing.T) {
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
	saved := NewKeys(3000, 0)
	saved.AddAll(old)
	for _, broken := range []bool{false, true} {
		all, sinces, name := 0, 0, fmt.Sprintf("broken is %v", broken)
		o := KeyOptions{Budget: 1 << 30, Expected: 3000, Saved: chunksOf(saved),
			All: counted(&all, old, since), Since: counted(&sinces, since), Done: func(err error) {
				if err != nil {
					t.Error(err)
				}
			}}
		if broken {
			o.Saved = noChunks
		}
		s := NewKeySet(o)
		s.Add(later...)
		settle(s)
		checkGrowing(t, rng, s, slices.Concat(old, since, later), name)
		if (all == 1) != broken || (sinces == 1) == broken || strangers(s) > 0.01 {
			t.Errorf("%s: %d full scans, %d scans of later hashes; %g of the strangers pass",
				name, all, sinces, strangers(s))
		}
		s.Close()
	}
}

// TestKeySetBudget compares the memory with the budget and with the documented bytes per key.
// Repeated writes of one hash must take no memory.
func TestKeySetBudget(t *testing.T) {
	skipUnderRace(t)
	for _, budget := range []int64{0, 63, 1000, 9000, 100_000, 3 << 20, 1 << 40} {
		rng := rand.New(rand.NewPCG(57, 0))
		s, most := NewKeySet(KeyOptions{Budget: budget}), int64(200_000)
		if budget == 3<<20 || os.Getenv("NEARDUP_CI") != "" {
			most = 400_000
		}
		last := testgen.Uniform(rng, 20_000)
		for n := int64(20_000); n <= most; n += 20_000 {
			s.Add(last...)
			bytes, promise := s.Bytes(), n*25/2+firstGeneration*5/2
			if bytes > budget || bytes > promise {
				t.Errorf("%d bytes for %d with a budget of %d", bytes, n, budget)
			}
			if s.Add(last...); s.Bytes() != bytes {
				t.Errorf("%d bytes for the same as %d", s.Bytes(), bytes)
			}
			checkGrowing(t, rng, s, last[:50], "the newest")
			last = testgen.Uniform(rng, 20_000)
		}
		if budget >= 1000 && budget <= 3<<20 && s.Bytes() < budget/3 {
			t.Errorf("%d bytes of %d", s.Bytes(), budget)
		}
	}
}

// TestSavedFilterGrows tests that a saved filter does not exceed its size when hashes are added.
func TestSavedFilterGrows(t *testing.T) {
	skipUnderRace(t)
	const n, budget = 300_000, 256 << 20
	saved, rng := New(KeyPrefix, n, budget), rand.New(rand.NewPCG(1, 1))
	for range n {
		saved.Add(rng.Uint64())
	}
	s := NewKeySet(KeyOptions{Budget: budget, Expected: n, Saved: chunksOf(saved),
		Since: testgen.Sequence[uint64](nil), Done: func(error) {}})
	defer s.Close()
	settle(s)
	for range 8 * n {
		s.Add(rng.Uint64())
	}
	if wrong := strangers(s); wrong > 0.01 {
		t.Errorf("%g of the strangers pass with eight times as many as were saved", wrong)
	}
}
