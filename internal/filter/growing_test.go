package filter

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

	"github.com/neardup/neardup/internal/testing/testenv"
	"github.com/neardup/neardup/internal/testing/testgen"
)

// growingSet has the common methods of LiveSet and KeySet.
type growingSet interface {
	Add(...uint64)
	MayContain(uint64) bool
	Bytes() int64
	Wait(context.Context) error
	Close()
}

func noChunks(func([]byte, error) bool) {}

// growingSets has functions that return sets without stored filters. all yields about expected
// stored fingerprints or hashes.
var growingSets = map[string]func(
	budget, expected int64, all iter.Seq2[uint64, error], done func(error)) growingSet{
	"live": func(budget, expected int64, all iter.Seq2[uint64, error],
		done func(error)) growingSet {
		s := NewLiveSet(budget)
		if expected > 0 {
			s.Load(all, done)
		}
		return s
	},
	"keys": func(budget, expected int64, all iter.Seq2[uint64, error],
		done func(error)) growingSet {
		return NewKeySet(KeyOptions{Budget: budget, Expected: expected, Saved: noChunks, All: all,
			Done: done, first: 500})
	},
}

// checkGrowing fails the test if the set does not find one of the fingerprints, with a query for
// this fingerprint or near it.
func checkGrowing(t *testing.T, rng *rand.Rand, s growingSet, fps []uint64, name string) {
	t.Helper()
	for _, fp := range fps {
		if !s.MayContain(fp) {
			t.Errorf("%s: %016x is not found", name, fp)
			return
		}
		live, ok := s.(*LiveSet)
		if !ok {
			continue
		}
		k := rng.IntN(maxDistance + 1)
		near := testgen.Flip(rng, fp, ^uint64(0), rng.IntN(k+1))
		found, known := live.AppendNear(nil, near, k)
		if live.Empty() || known && !slices.Contains(found, fp) {
			t.Errorf("%s: %016x is not found within %d of %016x", name, fp, k, near)
			return
		}
	}
}

// memStore replaces the store. It deletes no fingerprint, since a set may keep a deleted one.
type memStore struct {
	mu      sync.Mutex
	visible []uint64
}

// sample returns n of the visible fingerprints, or none if no fingerprint is visible.
func (m *memStore) sample(rng *rand.Rand, n int) (fps []uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := 0; i < n && len(m.visible) > 0; i++ {
		fps = append(fps, m.visible[rng.IntN(len(m.visible))])
	}
	return fps
}

// write adds fingerprints to a set before they become visible.
func (m *memStore) write(s growingSet, added []uint64) {
	s.Add(added...)
	runtime.Gosched()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.visible = append(m.visible, added...)
}

// stored yields the visible fingerprints. It calls half before it yields the second half.
func (m *memStore) stored(half func() error) iter.Seq2[uint64, error] {
	view := slices.Clone(m.visible)
	return func(yield func(uint64, error) bool) {
		for i, fp := range view {
			var err error
			if i == len(view)/2 {
				err = half()
			}
			if !yield(fp, err) || err != nil {
				return
			}
		}
	}
}

// TestGrowingSetsFindAll compares sets with the stored fingerprints, while the sets load and grow.
func TestGrowingSetsFindAll(t *testing.T) {
	seed := testenv.Seed(t)
	steps := testenv.Number(100, 200, 200, 5000)
	if testenv.Race {
		steps = 10
	}
	for kind, newSet := range growingSets {
		for _, budget := range []int64{0, 100, 1000, 20_000, 1 << 20, 1 << 40} {
			name := fmt.Sprintf("%s, budget %d", kind, budget)
			rng := rand.New(rand.NewPCG(seed, uint64(budget)))
			store := &memStore{}
			s := newSet(budget, 0, nil, nil)
			load := func() {} // ends the loading of s
			for range steps {
				switch rng.IntN(8) {
				case 0: // a commit that fails
					s.Add(testgen.Uniform(rng, 50)...)
				case 1:
					load()
				case 2: // a new set that loads the stored fingerprints
					load()
					s.Close()
					var err error
					if rng.IntN(4) == 0 {
						err = errors.New("scan fails")
					}
					expected, goOn := int64(len(store.visible)), make(chan struct{})
					if expected > 0 {
						expected = []int64{1, expected, 20 * expected}[rng.IntN(3)]
					}
					s = newSet(budget, expected, store.stored(func() error { <-goOn; return err }),
						func(error) {})
					load = sync.OnceFunc(func() { close(goOn); s.Wait(t.Context()) })
				default:
					store.write(s, testgen.Uniform(rng, []int{0, 1, 3, 100, 1000}[rng.IntN(5)]))
				}
				checkGrowing(t, rng, s, store.sample(rng, 20), name)
				if s.Bytes() > budget {
					t.Errorf("%s: %d bytes", name, s.Bytes())
				}
				if t.Failed() {
					break
				}
			}
			load()
			checkGrowing(t, rng, s, store.visible, name)
			s.Close()
		}
	}
}

// TestGrowingSetsConcurrently loads, writes and queries concurrently, also while a set exceeds its
// budget. A set must report every fingerprint until it is loaded.
func TestGrowingSetsConcurrently(t *testing.T) {
	for kind, newSet := range growingSets {
		for _, budget := range []int64{4 * maxFew,
			hashTablesBytes + 8*hashBlocks*(maxFew+maxFew/2), 1 << 30} {
			name := fmt.Sprintf("%s, budget %d", kind, budget)
			store := &memStore{visible: testgen.Uniform(rand.New(rand.NewPCG(100, 0)), 2000)}
			var writes atomic.Int32
			var s growingSet
			made := make(chan struct{})
			s = newSet(budget, 2000, store.stored(func() error {
				<-made
				for writes.Load() < 20 {
					if !s.MayContain(uint64(writes.Load())) {
						t.Errorf("%s: a set that is not loaded excludes a fingerprint", name)
					}
					time.Sleep(time.Millisecond)
				}
				return nil
			}), func(error) {})
			close(made)
			var writers, readers sync.WaitGroup
			var stop atomic.Bool
			for i := range uint64(2) {
				writers.Go(func() {
					rng := rand.New(rand.NewPCG(100, 1+i))
					for range testenv.Number(20, 60, 60, 600) {
						store.write(s, testgen.Uniform(rng, 1+rng.IntN(400)))
						writes.Add(1)
					}
				})
				readers.Go(func() {
					rng := rand.New(rand.NewPCG(100, 10+i))
					for !stop.Load() && !t.Failed() {
						checkGrowing(t, rng, s, store.sample(rng, 20), name)
					}
				})
			}
			writers.Wait()
			stop.Store(true)
			readers.Wait()
			s.Wait(t.Context())
			checkGrowing(t, rand.New(rand.NewPCG(100, 99)), s, store.visible, name)
			if budget == 1<<30 && falsePositives(s) > 0.01 {
				t.Errorf("%s: the set was not loaded", name)
			}
			if live, ok := s.(*LiveSet); ok {
				found, known := live.AppendNear(nil, 0, 16)
				slices.Sort(found)
				if known != (budget == 1<<30) ||
					known && !slices.Equal(found, nearOf(store.visible, 0, 16)) {
					t.Errorf("%s: %d fingerprints near 0, known is %t", name, len(found), known)
				}
			}
			s.Close()
		}
	}
}

// falsePositives returns the share of random fingerprints that a set reports.
func falsePositives(s growingSet) float64 {
	const all = 100_000
	rng, reported := rand.New(rand.NewPCG(3, 4)), 0
	for range all {
		if s.MayContain(rng.Uint64()) {
			reported++
		}
	}
	return float64(reported) / all
}

// TestKeySetLoadsSavedFilter tests that a set uses a stored filter and the hashes that were added
// later, and adds no more hashes to the filter than fit. An unusable filter must be built again.
func TestKeySetLoadsSavedFilter(t *testing.T) {
	const n = 30_000
	rng, more := rand.New(rand.NewPCG(1, 1)), 16*n
	if testenv.Race {
		more = n / 10
	}
	old, since, later := testgen.Uniform(rng, n), testgen.Uniform(rng, 500),
		testgen.Uniform(rng, more)
	counted := func(calls *int, fps ...[]uint64) iter.Seq2[uint64, error] {
		return func(yield func(uint64, error) bool) {
			*calls++
			testgen.Sequence(slices.Concat(fps...))(yield)
		}
	}
	saved := NewKeys(n, 0)
	saved.AddAll(old)
	for _, broken := range []bool{false, true} {
		all, sinces, name := 0, 0, fmt.Sprintf("broken is %v", broken)
		o := KeyOptions{Budget: 1 << 30, Expected: n, Saved: chunksOf(saved),
			All: counted(&all, old, since), Since: counted(&sinces, since),
			Done: func(err error) { testenv.Must(t, err) }}
		if broken {
			o.Saved = noChunks
		}
		s := NewKeySet(o)
		s.Add(later...)
		s.Wait(t.Context())
		checkGrowing(t, rng, s, slices.Concat(old, since, later), name)
		if (all == 1) != broken || (sinces == 1) == broken || falsePositives(s) > 0.01 {
			t.Errorf("%s: %d full scans, %d scans of later hashes; %g false positives", name, all,
				sinces, falsePositives(s))
		}
		s.Close()
	}
}

// TestKeySetBudget compares the memory with the budget and with the documented bytes per key.
// Adding a hash again must take no memory.
func TestKeySetBudget(t *testing.T) {
	skipUnderRace(t)
	for _, budget := range []int64{0, 63, 1000, 9000, 100_000, 3 << 20, 1 << 40} {
		rng := rand.New(rand.NewPCG(57, 0))
		s := NewKeySet(KeyOptions{Budget: budget})
		for n := int64(20_000); n <= 400_000; n += 20_000 {
			fps := testgen.Uniform(rng, 20_000)
			s.Add(fps...)
			bytes, promise := s.Bytes(), n*25/2+firstGeneration*5/2
			if bytes > budget || bytes > promise {
				t.Errorf("%d bytes for %d hashes with a budget of %d", bytes, n, budget)
			}
			if s.Add(fps...); s.Bytes() != bytes {
				t.Errorf("%d bytes after the hashes were added again, %d before", s.Bytes(), bytes)
			}
			checkGrowing(t, rng, s, fps[:50], "the newest")
		}
		if budget >= 1000 && budget <= 3<<20 && s.Bytes() < budget/3 {
			t.Errorf("%d bytes with a budget of %d", s.Bytes(), budget)
		}
	}
}
