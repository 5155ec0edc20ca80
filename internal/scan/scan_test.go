package scan

import (
	"cmp"
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

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

// TestEveryDesignIsExact does not leave it to the costs which designs are tried.
func TestEveryDesignIsExact(t *testing.T) {
	for k := range 11 {
		rng := rand.New(rand.NewPCG(uint64(k), 12))
		queries := some(rng, 100, k, nil)
		collection := some(rng, 200, k, queries)
		if testing.Short() && k%3 != 0 {
			continue
		}
		for blocks := 1; blocks <= k+1; blocks++ {
			for parts := 1; parts <= k+1; parts++ {
				fps, places, next := distinct(queries)
				g := &group{k: k, queries: fps, numbers: places, varying: allVary}
				for i, b := range divide(field{0, 64}, blocks, k+1) {
					tables := divide(b.field, min(parts, b.radius+1), b.radius+1)
					if slices.ContainsFunc(tables, func(n near) bool { return ball(n.width, n.radius) > 2000 }) {
						g = nil
						break
					}
					filter := []shape{{}, {min(b.width, 14), false}, {12, true}, {7, false}}[(i+parts)%4]
					if filter.inserts(1, b) > 2000 || filter.bits < 7 || filter.bits > b.width && !filter.hashed {
						filter = shape{}
					}
					g.design.blocks = append(g.design.blocks, block{b, filter, tables})
				}
				if g != nil {
					g.prepare()
					checkScan(t, &Queries{k: k, len: len(queries), group: g, next: next}, queries, collection, k)
				}
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

// TestDesignsCover: what differs in at most k bits is near in a block, and in a table
// of each block in which it is near, however the bits fall.
func TestDesignsCover(t *testing.T) {
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
