package scan

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/neardup/neardup/internal/testseed"
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
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			t.Fatalf("%v: %d matches, not %d: %v is missing", q, len(got), len(want), want[i])
		case i >= len(want):
			t.Fatalf("%v: %d matches, not %d: %v is too many", q, len(got), len(want), got[i])
		case got[i] != want[i]:
			t.Fatalf("%v: match %d is %v, not %v", q, i, got[i], want[i])
		}
	}
	return len(want)
}

// flip changes n different bits.
func flip(rng *rand.Rand, fp uint64, n int) uint64 {
	flipped := fp
	for bits.OnesCount64(flipped^fp) < n {
		flipped ^= 1 << rng.IntN(64)
	}
	return flipped
}

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
			for _, o := range []Options{{Collection: 1e5}, {Collection: 10}, {Collection: 1e5, FilterBytes: 1}, {Collection: 1e6, FilterBytes: 1 << 14}} {
				q, err := New(queries, k, o)
				if err != nil {
					t.Fatal(err)
				}
				found += checkScan(t, q, queries, fps, k)
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
					q := &Queries{k: k, len: len(queries)}
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
		for _, o := range []Options{{}, {FilterBytes: 1}} {
			q, err := New(queries, 3, o)
			if err != nil {
				t.Fatal(err)
			}
			if found := checkScan(t, q, queries, fps, 3); found < 2*maxHits {
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
	for _, c := range []struct {
		queries, k int
		o          Options
		want       string
	}{
		{1, 3, Options{}, "one by one"},
		{1000, 16, Options{}, "one by one"},
		{5, 0, Options{}, "64 bits within 0 (filter of 2^22 bits)"},
		{1000, 3, Options{}, "32 bits within 1 (filter of 2^22 bits), 32 bits within 1 (filter of 2^22 bits)"},
		{1_000_000, 3, Options{}, "32 bits within 1 (filter of 2^30 bits), 32 bits within 1 (filter of 2^30 bits)"},
		{1_000_000, 3, Options{Collection: 10_000_000}, "32 bits within 1 (filter of 2^29 bits), 32 bits within 1 (filter of 2^29 bits)"},
		{1_000_000, 3, Options{Collection: 1_000_000}, "32 bits within 1, 32 bits within 1"},
		{1_000_000, 3, Options{FilterBytes: 1 << 26}, "32 bits within 1 (filter of 2^28 bits), 32 bits within 1 (filter of 2^28 bits)"},
		{1_000_000, 6, Options{}, "32 bits within 3, 32 bits within 2 (filter of 2^32 bits)"},
	} {
		if got := planFor(c.queries, c.k, c.o.orDefault()).String(); got != c.want {
			t.Errorf("%d queries, k = %d, %+v: %s, want %s", c.queries, c.k, c.o, got, c.want)
		}
	}
	for k := range MaxDistance + 1 {
		for n := 1; n < 1<<31; n = 3*n + 1 {
			filters := int64(0)
			for _, b := range planFor(n, k, Options{}.orDefault()) {
				if len(b.tables) == 0 || len(b.tables) > b.radius+1 {
					t.Errorf("%d queries, k = %d: %+v", n, k, b)
				}
				if b.filterBits > 0 {
					filters += 8 * int64(wordsOf(b.filterBits))
				}
			}
			if filters > defaultFilterBytes {
				t.Errorf("%d queries, k = %d: filters of %d bytes", n, k, filters)
			}
		}
	}
}

// TestFiltersAreAsLargeAsTheyShouldBe fails on 32-bit processors if 2^31 or 2^32 is ever
// an int.
func TestFiltersAreAsLargeAsTheyShouldBe(t *testing.T) {
	for bits := minFilterBits; bits <= maxFilterBits; bits++ {
		if got, want := 64*int64(wordsOf(bits)), int64(1)<<bits; got != want {
			t.Errorf("2^%d bits: %d, want %d", bits, got, want)
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
		q, err := New(queries, k, Options{Collection: rapid.Int64Range(1, 1e5).Draw(t, "expected"), FilterBytes: rapid.Int64Range(0, 1<<16).Draw(t, "filter")})
		if err != nil {
			t.Fatal(err)
		}
		checkScan(t, q, queries, fps, k)
	})
}

func TestScanInParallel(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 13))
	queries := some(rng, 2000, 3, nil)
	fps := some(rng, 4000, 3, queries)
	q, err := New(queries, 3, Options{Collection: 1e5})
	if err != nil {
		t.Fatal(err)
	}
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
	none, err := New([]uint64{}, 3, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := matchesOf(none, []uint64{0, 1}); len(got) != 0 {
		t.Errorf("no queries have the matches %v", got)
	}
	one, err := New([]uint64{7}, 0, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := matchesOf(one, nil); len(got) != 0 {
		t.Errorf("an empty collection has the matches %v", got)
	}
	if one.Len() != 1 || one.Bytes() <= 0 || !strings.Contains(fmt.Sprint(one), "1 distinct queries within 0 bits") {
		t.Errorf("%v: %d queries, %d bytes", one, one.Len(), one.Bytes())
	}
}

func TestNewRefusesDistance(t *testing.T) {
	for _, k := range []int{-1, MaxDistance + 1} {
		if _, err := New([]uint64{1}, k, Options{}); !errors.Is(err, ErrDistance) {
			t.Errorf("k = %d: %v", k, err)
		}
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

// alike yields queries that have much in common, by name.
func alike(rng *rand.Rand, n int) iter.Seq2[string, []uint64] {
	center := rng.Uint64()
	all := map[string][]uint64{}
	for i := range uint64(n) {
		add := func(name string, fp uint64) { all[name] = append(all[name], fp) }
		add("numbers in a row", i)
		add("few bits, far apart", i<<52|i&7<<20|center&0xfffff)
		add("near one", flip(rng, center, rng.IntN(7)))
		add("all but equal", center^i&3)
		if i%2 == 0 {
			add("half in a row, half random", i)
			add("half near one, half random", flip(rng, center, rng.IntN(7)))
			add("half of one beginning, half random", center>>40<<40|rng.Uint64()>>24)
		} else {
			add("half in a row, half random", rng.Uint64())
			add("half near one, half random", rng.Uint64())
			add("half of one beginning, half random", rng.Uint64())
		}
	}
	return func(yield func(string, []uint64) bool) {
		for _, name := range slices.Sorted(maps.Keys(all)) {
			if !yield(name, all[name]) {
				return
			}
		}
	}
}

// TestQueriesThatAreAlike: whole buckets of them.
func TestQueriesThatAreAlike(t *testing.T) {
	distances := []int{0, 1, 3, 6, 10}
	if testing.Short() {
		distances = []int{3}
	}
	for _, k := range distances {
		rng := rand.New(rand.NewPCG(testseed.Of(t), uint64(k)))
		for name, queries := range alike(rng, 2000) {
			fps := make([]uint64, 60)
			for i := range fps {
				fps[i] = flip(rng, queries[rng.IntN(len(queries))], rng.IntN(k+3))
			}
			fps[0], fps[1], fps[2] = 0, ^uint64(0), rng.Uint64()
			for _, o := range []Options{{FilterBytes: 4 << 20}, {Collection: 1e5}, {FilterBytes: 1}} {
				q, err := New(queries, k, o)
				if err != nil {
					t.Fatal(err)
				}
				t.Run(fmt.Sprintf("k=%d/%s/%d,%d", k, name, o.Collection, o.FilterBytes), func(t *testing.T) {
					checkScan(t, q, queries, fps, k)
				})
				// 12 bytes a query for itself, 4 where some are equal, and in each table 12 and 8.
				if most := int64(len(queries))*(16+int64(k+1)*(12+8)) + o.orDefault().FilterBytes; q.Bytes() > most {
					t.Errorf("k = %d, %s with %+v: %d bytes, more than %d: %v", k, name, o, q.Bytes(), most, q)
				}
			}
		}
	}
}

// TestEqualQueries: each of them is found, however many there are.
func TestEqualQueries(t *testing.T) {
	rng := rand.New(rand.NewPCG(testseed.Of(t), 20))
	few := some(rng, 20, 3, nil)
	var queries []uint64
	for range 3000 {
		queries = append(queries, few[rng.IntN(len(few))])
	}
	fps := slices.Concat(few, few, []uint64{few[0] ^ 1, rng.Uint64()})
	for _, k := range []int{0, 3, 10} {
		q, err := New(queries, k, Options{Collection: 1e5})
		if err != nil {
			t.Fatal(err)
		}
		checkScan(t, q, queries, fps, k)
	}
}

// TestDistinct: each query is there once, or behind its equal.
func TestDistinct(t *testing.T) {
	rng := rand.New(rand.NewPCG(testseed.Of(t), 21))
	for _, n := range []int{1, 2, 1000} {
		for _, mask := range []uint64{0, 1, 0xff << 30, ^uint64(0)} {
			queries := make([]uint64, n)
			for i := range queries {
				queries[i] = rng.Uint64() & mask
			}
			fps, places, next := distinct(queries)
			if !slices.IsSorted(fps) || len(slices.Compact(slices.Clone(fps))) != len(fps) {
				t.Fatalf("%d of %x are not sorted", n, mask)
			}
			seen := 0
			for i, place := range places {
				for {
					if seen++; queries[place] != fps[i] {
						t.Fatalf("query %d is %x, not %x", place, queries[place], fps[i])
					}
					if next == nil || next[place] == noQuery {
						break
					}
					if next[place] <= place {
						t.Fatalf("%d comes after %d", next[place], place)
					}
					place = next[place]
				}
			}
			if seen != n {
				t.Fatalf("%d of %d queries", seen, n)
			}
		}
	}
}
