package scan

import (
	"cmp"
	"math/bits"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/neardup/neardup/internal/testing/testenv"
	"github.com/neardup/neardup/internal/testing/testgen"
)

// bruteForce compares all pairs.
func bruteForce(queries, fps []uint64, k int) []Match {
	var all []Match
	for at, fp := range fps {
		for i, q := range queries {
			if d := bits.OnesCount64(fp ^ q); d <= k {
				all = append(all, Match{at, i, d})
			}
		}
	}
	return all
}

func matchesOf(q *Queries, fps []uint64) []Match {
	var all []Match
	q.Scan(fps, func(m Match) { all = append(all, m) })
	slices.SortFunc(all, func(a, b Match) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Query, b.Query))
	})
	return all
}

func checkScan(t *testing.T, q *Queries, queries, fps []uint64, k int) (found int) {
	t.Helper()
	got, want := matchesOf(q, fps), bruteForce(queries, fps, k)
	if !slices.Equal(got, want) {
		t.Fatalf("%d queries, k = %d: %d matches, want %d", len(queries), k, len(got), len(want))
	}
	return len(want)
}

// some returns clustered and adversarial fingerprints, and neighbors of some elements of near.
func some(rng *rand.Rand, n, k int, near []uint64) []uint64 {
	fps := testgen.Clustered(rng, n)
	if near == nil {
		near = fps
	}
	copy(fps[n/2:], testgen.Queries(rng, near, n/4, k))
	copy(fps[n/2+n/4:], testgen.Adversarial(rng, n/4))
	return fps
}

// collections has sizes for which plans have filters, smaller filters, and no filters.
var collections = []int64{1e5, 1000, 10}

func newQueries(t *testing.T, queries []uint64, k int, collection int64) *Queries {
	q, err := New(queries, k, collection)
	testenv.Must(t, err)
	return q
}

func TestScanIsExact(t *testing.T) {
	sizes := []int{1, 2, 63, 500}
	if testing.Short() {
		sizes = []int{1, 100}
	}
	for _, k := range []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, MaxDistance} {
		rng := rand.New(rand.NewPCG(uint64(k), 11))
		found := 0
		for _, n := range sizes {
			queries := some(rng, n, k, nil)
			fps := some(rng, 700, k, queries)
			for _, collection := range collections {
				found += checkScan(t, newQueries(t, queries, k, collection), queries, fps, k)
			}
		}
		if found == 0 {
			t.Errorf("k = %d: no pair is within k bits", k)
		}
	}
}

// TestEveryPlanIsExact also tests plans that planFor does not return.
func TestEveryPlanIsExact(t *testing.T) {
	for k := range 11 {
		rng := rand.New(rand.NewPCG(uint64(k), 12))
		queries := some(rng, 100, k, nil)
		collection := some(rng, 200, k, queries)
		if testing.Short() && k%3 != 0 {
			continue
		}
		large := func(f field) bool { return ballSize(f.width, f.radius) > 2000 }
		for blocks := 1; blocks <= k+1; blocks++ {
			for parts := 1; parts <= k+1; parts++ {
				var plan []block
				for i, f := range (field{0, 64, k}).divide(blocks) {
					b := block{f, []int{0, min(f.width, 14), 12, 7}[(i+parts)%4],
						f.divide(min(parts, f.radius+1))}
					if large(f) || b.filterBits < 7 || b.filterBits > f.width {
						b.filterBits = 0
					}
					if slices.ContainsFunc(b.parts, large) {
						plan = nil
						break
					}
					plan = append(plan, b)
				}
				if plan != nil {
					q := distinct(queries, k)
					q.prepare(plan)
					checkScan(t, q, queries, collection, k)
				}
			}
		}
	}
}

// TestLargeBlocks uses about as many fingerprints as are looked up together, and more, and at least
// twice as many matches as buckets are read together.
func TestLargeBlocks(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 14))
	queries := some(rng, 300, 3, nil)
	for _, n := range []int{step - 1, step, step + 1, 3*step + 7} {
		fps := some(rng, n, 3, queries)
		for _, collection := range collections {
			q := newQueries(t, queries, 3, collection)
			if found := checkScan(t, q, queries, fps, 3); found < 2*maxRanges {
				t.Errorf("only %d matches", found)
			}
			checkScan(t, q, queries, fps[n-1:], 3)
		}
	}
}

func TestScanInParallel(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 13))
	queries := some(rng, 2000, 3, nil)
	fps := some(rng, 4000, 3, queries)
	q := newQueries(t, queries, 3, collections[0])
	var wg sync.WaitGroup
	for part := range slices.Chunk(fps, 500) {
		wg.Go(func() {
			if !slices.Equal(matchesOf(q, part), bruteForce(queries, part, 3)) {
				t.Error("concurrent scans find wrong matches")
			}
		})
	}
	wg.Wait()
}

func TestNothingToScan(t *testing.T) {
	for _, k := range []int{-1, MaxDistance + 1} {
		if _, err := New([]uint64{1}, k, 0); err == nil {
			t.Errorf("k = %d is accepted", k)
		}
	}
	checkScan(t, newQueries(t, nil, 3, 0), nil, []uint64{0, 1}, 3)
	checkScan(t, newQueries(t, []uint64{7}, 0, 0), []uint64{7}, nil, 0)
}

// TestPlansCover tests that every set of at most k flipped bits is within the radius of a part.
func TestPlansCover(t *testing.T) {
	for k := range MaxDistance + 1 {
		for n := 1; n <= k+1; n++ {
			parts := field{0, 64, k}.divide(n)
			sum, next := 0, 0
			for _, p := range parts {
				if p.first != next || p.width < 1 || p.radius < 0 {
					t.Fatalf("k = %d in %d parts: %+v", k, n, parts)
				}
				sum += p.radius + 1
				next += p.width
			}
			// If no part were near, each part would have at least radius+1 flips.
			if sum <= k || next != 64 {
				t.Errorf("k = %d in %d parts does not cover: %+v", k, n, parts)
			}
		}
	}
}
