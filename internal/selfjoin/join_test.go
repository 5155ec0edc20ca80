package selfjoin

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/neardup/neardup/internal/testing/testenv"
)

// joinOf returns a join with the given number of workers, and a function that finishes it and
// returns its pairs.
func joinOf(k, workers int) (j *join, pairs func(t *testing.T) []Pair) {
	var found []Pair
	var mu sync.Mutex
	j = newJoin(k, workers, func(_ int, pairs []Pair) error {
		mu.Lock()
		defer mu.Unlock()
		found = append(found, pairs...)
		return nil
	})
	return j, func(t *testing.T) []Pair {
		t.Helper()
		must(t, j.finish())
		return sorted(found)
	}
}

// TestLargeGroupsWithinLargeGroups tests that all workers can handle parts of parts together, as
// they do for millions of fingerprints.
func TestLargeGroupsWithinLargeGroups(t *testing.T) {
	seed := testenv.Seed(t)
	for _, shape := range shapes {
		for _, k := range []int{3, 6} {
			fps := shape.make(rand.New(rand.NewPCG(seed, 21)), 600)
			slices.Sort(fps)
			fps = slices.Compact(fps)
			want := naive(fps, k)
			for _, workers := range []int{1, 3} {
				for _, change := range []bool{false, true} {
					what := fmt.Sprintf("%s, k = %d, %d workers, change %v", shape.name, k,
						workers, change)
					j, pairs := joinOf(k, workers)
					j.least = 1
					group := slices.Clone(fps)
					j.joinParallel(group, make([]fp, len(group)),
						constraint{free: ^fp(0), budget: k}, change)
					equalPairs(t, pairs(t), want, what)
					if change {
						slices.Sort(group)
					}
					if !slices.Equal(group, fps) {
						t.Fatalf("%s: the fingerprints or their order have changed", what)
					}
				}
			}
		}
	}
}

// TestComparedGroups tests comparing groups of one to three tiles, by one worker and by all.
func TestComparedGroups(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 22))
	for _, n := range []int{tileLen - 1, tileLen, tileLen + 1, 2*tileLen + 10} {
		center := fp(r.Uint64())
		fps := fill(n, func(int, []fp) fp { return flipped(r, center, r.IntN(12), ^fp(0)) })
		slices.Sort(fps)
		fps = slices.Compact(fps)
		c := constraint{free: ^fp(0), budget: 3}
		for _, all := range []bool{false, true} {
			j, pairs := joinOf(3, 2)
			if group := slices.Clone(fps); all {
				j.compare(group, &c)
			} else {
				j.workers[1].compare(group, &c)
			}
			equalPairs(t, pairs(t), naive(fps, 3), fmt.Sprintf("%d, by all %t", n, all))
		}
	}
}

// TestChainsOfMaximalLength tests chains of maxChained fingerprints, whose places have 16 bits, and
// of fewer fingerprints in reused memory.
func TestChainsOfMaximalLength(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 23))
	all := fill(maxChained+1, func(int, []fp) fp { return fp(r.Uint64()) })
	for i := 1; i < len(all); i += 100 {
		all[i] = all[i-1] ^ 1<<63
	}
	all[maxChained] = all[100] ^ 1<<62
	j, pairs := joinOf(1, 1)
	c := constraint{free: ^fp(0), budget: 1}
	s := step{constraint: constraint{equal: 1<<20 - 1, free: ^fp(1<<20 - 1), budget: 1},
		block: 1<<20 - 1, width: 20, group: &c}
	if j.workers[0].chained(all, &s) {
		t.Errorf("%d fingerprints were chained", len(all))
	}
	want := 0
	// 201 uses all the memory that remains after 100
	for _, n := range []int{100, 201, maxChained} {
		if !j.workers[0].chained(all[:n], &s) {
			t.Fatalf("%d fingerprints were not chained", n)
		}
		for i := 1; i < n; i += 100 {
			want++
		}
	}
	if got := pairs(t); len(got) != want {
		t.Errorf("%d pairs, want %d", len(got), want)
	}
}

// TestWorkersShareNoConstraint tests that a worker does not append to a list that other workers
// read.
func TestWorkersShareNoConstraint(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 24))
	shared := make([]fp, 1, 64)
	shared[0] = 1
	j, _ := joinOf(6, 1)
	fps := fill(2000, func(int, []fp) fp { return fp(r.Uint64()) })
	j.workers[0].run(fps, constraint{equal: 2, unequal: shared, free: ^fp(3), budget: 5})
	for i, block := range shared[:cap(shared)] {
		if i > 0 && block != 0 {
			t.Fatalf("a worker wrote %v after the end of its constraint", block)
		}
	}
}
