package scan

import (
	"cmp"
	"fmt"
	"maps"
	"math/bits"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/neardup/neardup/internal/testing/testenv"
	"github.com/neardup/neardup/internal/testing/testgen"
	"pgregory.net/rapid"
)

// bruteForce compares everything with everything.
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

func sortMatches(matches []Match) {
	slices.SortFunc(matches, func(a, b Match) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Query, b.Query))
	})
}

func matchesOf(q *Queries, fps []uint64) []Match {
	var all []Match
	q.Scan(fps, func(m Match) { all = append(all, m) })
	sortMatches(all)
	return all
}

func checkScan(t interface {
	Helper()
	Fatalf(string, ...any)
}, q *Queries, queries, fps []uint64, k int) (found int) {
	t.Helper()
	got, want := matchesOf(q, fps), bruteForce(queries, fps, k)
	if !slices.Equal(got, want) {
		i := 0
		for i < min(len(got), len(want)) && got[i] == want[i] {
			i++
		}
		t.Fatalf("%d queries, k = %d: %d matches, want %d; they differ from number %d on: %v, want %v", len(queries), k, len(got), len(want), i, got[i:min(i+1, len(got))], want[i:min(i+1, len(want))])
	}
	return len(want)
}

func flip(rng *rand.Rand, fp uint64, n int) uint64 { return testgen.Flip(rng, fp, ^uint64(0), n) }

// some returns fingerprints, many of them near to each other or equal, some of extremes.
func some(rng *rand.Rand, n, k int, near []uint64) []uint64 {
	fps := make([]uint64, 0, n)
	for len(fps) < n {
		from := near
		if len(fps) > 0 && rng.IntN(2) == 0 {
			from = fps
		}
		switch c := rng.IntN(8); {
		case c == 0:
			fps = append(fps, []uint64{0, ^uint64(0), 1, 1 << 63}[rng.IntN(4)])
		case c <= 2 || len(from) == 0:
			fps = append(fps, rng.Uint64())
		default:
			fps = append(fps, flip(rng, from[rng.IntN(len(from))], rng.IntN(k+3)))
		}
	}
	return fps
}

// memory is what a plan is made for.
type memory struct{ collection, filterBytes int64 }

var memories = []memory{{1e5, maxFilterBytes}, {10, maxFilterBytes}, {1e5, 1}, {1e6, 1 << 14}, {defaultCollection, 4 << 20}}

func newQueries(queries []uint64, k int, m memory) *Queries {
	q := &Queries{k: k}
	q.fps, q.numbers, q.next = distinct(queries)
	q.prepare(planFor(len(q.fps), k, m.collection, m.filterBytes))
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
			for _, m := range memories {
				found += checkScan(t, newQueries(queries, k, m), queries, fps, k)
			}
		}
		if found == 0 {
			t.Errorf("k = %d: there was nothing to find", k)
		}
	}
}

// TestEveryPlanIsExact does not leave it to the rule which plans are tried.
func TestEveryPlanIsExact(t *testing.T) {
	for k := range 11 {
		rng := rand.New(rand.NewPCG(uint64(k), 12))
		queries := some(rng, 100, k, nil)
		collection := some(rng, 200, k, queries)
		if testing.Short() && k%3 != 0 {
			continue
		}
		for blocks := 1; blocks <= k+1; blocks++ {
			for parts := 1; parts <= k+1; parts++ {
				var d plan
				for i, b := range divide(field{0, 64}, blocks, k+1) {
					tables := divide(b.field, min(parts, b.radius+1), b.radius+1)
					if slices.ContainsFunc(tables, func(n radiusField) bool { return hammingBallSize(n.width, n.radius) > 2000 }) {
						d = nil
						break
					}
					filterBits := []int{0, min(b.width, 14), 12, 7}[(i+parts)%4]
					if hammingBallSize(b.width, b.radius) > 2000 || filterBits < 7 {
						filterBits = 0
					}
					d = append(d, block{b, filterBits, tables})
				}
				if d != nil {
					q := &Queries{k: k}
					q.fps, q.numbers, q.next = distinct(queries)
					q.prepare(d)
					checkScan(t, q, queries, collection, k)
				}
			}
		}
	}
}

// TestLargeBlocks: more fingerprints at once than are looked up together, and more that
// match than are kept before they are reported.
func TestLargeBlocks(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 14))
	queries := some(rng, 300, 3, nil)
	for _, n := range []int{step - 1, step, step + 1, 3*step + 7} {
		fps := some(rng, n, 3, queries)
		for _, m := range memories {
			q := newQueries(queries, 3, m)
			if found := checkScan(t, q, queries, fps, 3); found < 2*maxRanges {
				t.Errorf("only %d matches", found)
			}
			if got, want := matchesOf(q, fps[n-1:]), bruteForce(queries, fps[n-1:], 3); !slices.Equal(got, want) {
				t.Errorf("the last one alone: %v, want %v", got, want)
			}
		}
	}
}

// TestPlans: what the rule makes of numbers of queries.
func TestPlans(t *testing.T) {
	whole := memory{defaultCollection, maxFilterBytes}
	for _, c := range []struct {
		queries, k int
		memory     memory
		want       string
	}{
		{1, 3, whole, "one by one"},
		{1000, 16, whole, "one by one"},
		{5, 0, whole, "64 bits within 0 (filter of 2^22 bits)"},
		{1000, 3, whole, "32 bits within 1 (filter of 2^22 bits), 32 bits within 1 (filter of 2^22 bits)"},
		{1_000_000, 3, whole, "32 bits within 1 (filter of 2^30 bits), 32 bits within 1 (filter of 2^30 bits)"},
		{1_000_000, 3, memory{1e7, maxFilterBytes}, "32 bits within 1 (filter of 2^29 bits), 32 bits within 1 (filter of 2^29 bits)"},
		{1_000_000, 3, memory{1e6, maxFilterBytes}, "32 bits within 1, 32 bits within 1"},
		{1_000_000, 3, memory{defaultCollection, 1 << 26}, "32 bits within 1 (filter of 2^28 bits), 32 bits within 1 (filter of 2^28 bits)"},
		{1_000_000, 6, whole, "32 bits within 3, 32 bits within 2 (filter of 2^32 bits)"},
	} {
		if got := planFor(c.queries, c.k, c.memory.collection, c.memory.filterBytes).String(); got != c.want {
			t.Errorf("%d queries, k = %d, %+v: %s, want %s", c.queries, c.k, c.memory, got, c.want)
		}
	}
	for k := range MaxDistance + 1 {
		for n := 1; n < 1<<31; n = 3*n + 1 {
			filters := int64(0)
			for _, b := range planFor(n, k, defaultCollection, maxFilterBytes) {
				if len(b.tables) == 0 || len(b.tables) > b.radius+1 {
					t.Errorf("%d queries, k = %d: %+v", n, k, b)
				}
				if b.filterBits > 0 {
					filters += 1 << (b.filterBits - 3)
				}
			}
			if filters > maxFilterBytes {
				t.Errorf("%d queries, k = %d: filters of %d bytes", n, k, filters)
			}
		}
	}
}

func TestScanOfAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := rapid.IntRange(0, 10).Draw(t, "k")
		word := rapid.OneOf(rapid.Uint64(), rapid.Uint64Range(0, 100), rapid.Map(rapid.IntRange(0, 63), func(i int) uint64 { return 1 << i }))
		queries := rapid.SliceOfN(word, 0, 40).Draw(t, "queries")
		fps := rapid.SliceOfN(word, 0, 60).Draw(t, "collection")
		if rapid.Bool().Draw(t, "sorted") {
			slices.Sort(fps)
		}
		q := newQueries(queries, k, memory{rapid.Int64Range(1, 1e5).Draw(t, "expected"), rapid.Int64Range(0, 1<<16).Draw(t, "filter")})
		checkScan(t, q, queries, fps, k)
	})
}

func TestScanInParallel(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 13))
	queries := some(rng, 2000, 3, nil)
	fps := some(rng, 4000, 3, queries)
	q := newQueries(queries, 3, memories[0])
	var mu sync.Mutex
	var got []Match
	var wg sync.WaitGroup
	const part = 500
	for from := 0; from < len(fps); from += part {
		wg.Go(func() {
			q.Scan(fps[from:from+part], func(m Match) {
				mu.Lock()
				defer mu.Unlock()
				m.At += from
				got = append(got, m)
			})
		})
	}
	wg.Wait()
	sortMatches(got)
	if !slices.Equal(got, bruteForce(queries, fps, 3)) {
		t.Error("parts that are scanned at the same time give other matches than one by one")
	}
}

func TestNothingToScan(t *testing.T) {
	for _, k := range []int{-1, MaxDistance + 1} {
		if _, err := New([]uint64{1}, k, 0); err == nil {
			t.Errorf("k = %d is taken", k)
		}
	}
	none, err := New([]uint64{}, 3, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got := matchesOf(none, []uint64{0, 1}); len(got) != 0 {
		t.Errorf("no queries have the matches %v", got)
	}
	one, err := New([]uint64{7}, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got := matchesOf(one, nil); len(got) != 0 {
		t.Errorf("an empty collection has the matches %v", got)
	}
	if got, want := one.String(), "1 distinct queries within 0 bits: one by one"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestPlansCover: what differs in at most k bits is near in a block, and in a table
// of each block in which it is near, however the bits fall.
func TestPlansCover(t *testing.T) {
	for k := range MaxDistance + 1 {
		for blocks := 1; blocks <= k+1; blocks++ {
			parts := divide(field{0, 64}, blocks, k+1)
			sum, next := 0, 0
			for _, p := range parts {
				if p.first != next || p.width < 1 || p.radius < 0 {
					t.Fatalf("k = %d in %d blocks: %+v", k, blocks, parts)
				}
				sum += p.radius + 1
				next += p.width
			}
			// Were no block near, there would be a flip more than its radius in each.
			if sum <= k || next != 64 {
				t.Errorf("k = %d in %d blocks: radii of %+v", k, blocks, parts)
			}
		}
	}
}

// alike returns queries that have much in common, by name.
func alike(rng *rand.Rand, n int) map[string][]uint64 {
	center := rng.Uint64()
	half := func(i, fp uint64) uint64 {
		if i%2 == 0 {
			return rng.Uint64()
		}
		return fp
	}
	all := map[string][]uint64{}
	for i := range uint64(n) {
		for name, fp := range map[string]uint64{
			"numbers in a row":                   i,
			"few bits, far apart":                i<<52 | i&7<<20 | center&0xfffff,
			"near one":                           flip(rng, center, rng.IntN(7)),
			"all but equal":                      center ^ i&3,
			"half in a row, half random":         half(i, i),
			"half near one, half random":         half(i, flip(rng, center, rng.IntN(7))),
			"half of one beginning, half random": half(i, center>>40<<40|rng.Uint64()>>24),
		} {
			all[name] = append(all[name], fp)
		}
	}
	return all
}

// TestQueriesThatAreAlike: whole buckets of them.
func TestQueriesThatAreAlike(t *testing.T) {
	distances := []int{0, 1, 3, 6, 10}
	if testing.Short() {
		distances = []int{3}
	}
	for _, k := range distances {
		rng := rand.New(rand.NewPCG(testenv.Seed(t), uint64(k)))
		all := alike(rng, 2000)
		for _, name := range slices.Sorted(maps.Keys(all)) {
			queries := all[name]
			fps := make([]uint64, 60)
			for i := range fps {
				fps[i] = flip(rng, queries[rng.IntN(len(queries))], rng.IntN(k+3))
			}
			fps[0], fps[1], fps[2] = 0, ^uint64(0), rng.Uint64()
			for i, m := range memories {
				q := newQueries(queries, k, m)
				t.Run(fmt.Sprintf("k=%d/%s/%d", k, name, i), func(t *testing.T) { checkScan(t, q, queries, fps, k) })
				// 12 bytes a query for itself, 4 where some are equal, and in each table 12 and 8.
				if n, most := bytesOf(q), int64(len(queries))*(16+int64(k+1)*(12+8))+m.filterBytes; n > most {
					t.Errorf("k = %d, %s with %+v: %d bytes, more than %d", k, name, m, n, most)
				}
			}
		}
	}
}

// bytesOf returns the memory that queries take.
func bytesOf(q *Queries) int64 {
	n := 12*len(q.fps) + 4*len(q.next)
	for _, b := range q.blocks {
		if b.filter != nil {
			n += 8 * len(b.filter.words)
		}
		for _, t := range b.tables {
			n += 8*len(t.keys) + 4*(len(t.numbers)+len(t.starts))
		}
	}
	return int64(n)
}

// TestEqualQueries: each of them is found, however many there are.
func TestEqualQueries(t *testing.T) {
	rng := rand.New(rand.NewPCG(testenv.Seed(t), 20))
	few := some(rng, 20, 3, nil)
	var queries []uint64
	for range 3000 {
		queries = append(queries, few[rng.IntN(len(few))])
	}
	fps := slices.Concat(few, few, []uint64{few[0] ^ 1, rng.Uint64()})
	for _, k := range []int{0, 3, 10} {
		checkScan(t, newQueries(queries, k, memories[0]), queries, fps, k)
	}
}
