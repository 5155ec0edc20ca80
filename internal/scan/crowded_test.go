package scan

import (
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/neardup/neardup/internal/testseed"
)

// crowds yields queries that have much in common, by name.
func crowds(rng *rand.Rand, n int) iter.Seq2[string, []uint64] {
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

// TestCrowdsAreExact has so many queries in common places that they are groups of their
// own, and a collection of what is near to them.
func TestCrowdsAreExact(t *testing.T) {
	distances := []int{0, 1, 3, 6, 10}
	if testing.Short() {
		distances = []int{3}
	}
	for _, k := range distances {
		rng := rand.New(rand.NewPCG(testseed.Of(t), uint64(k)))
		divided := map[string]bool{}
		for name, queries := range crowds(rng, 4*crowdedFrom) {
			fps := make([]uint64, 60)
			for i := range fps {
				fps[i] = flip(rng, queries[rng.IntN(len(queries))], rng.IntN(k+3))
			}
			fps[0], fps[1], fps[2] = 0, ^uint64(0), rng.Uint64()
			for _, o := range []Options{{}, {Collection: 1e5}, {FilterBytes: 1}} {
				t.Run(fmt.Sprintf("k=%d/%s/%d,%d", k, name, o.Collection, o.FilterBytes), func(t *testing.T) {
					if o.FilterBytes == 0 && o.Collection == 0 && testing.Short() {
						t.Skip("the default filters are large")
					}
					if o.FilterBytes == 0 {
						o.FilterBytes = 4 << 20
					}
					q, err := New(queries, k, o)
					if err != nil {
						t.Fatal(err)
					}
					checkScan(t, q, queries, fps, k)
					if crowdsOf(q.group) > 0 || !q.group.varying.all() {
						divided[name] = true
					}
				})
			}
		}
		for _, name := range []string{"numbers in a row", "few bits, far apart", "half of one beginning, half random"} {
			if k <= 3 && !divided[name] {
				t.Errorf("k = %d, %s: a bucket has most of it", k, name)
			}
		}
		// Within 3 bits, a row of 2,048 numbers is as well compared one by one.
		if k <= 1 && !divided["half in a row, half random"] {
			t.Errorf("k = %d: a bucket has all numbers in a row", k)
		}
	}
}

// TestCrowdsBesideABucket: what is near differs in a bit of the bucket's, and the group of
// a crowded bucket is asked all the same.
func TestCrowdsBesideABucket(t *testing.T) {
	rng := rand.New(rand.NewPCG(testseed.Of(t), 19))
	queries := make([]uint64, 2*crowdedFrom)
	for i := range queries {
		queries[i] = 0xabcde<<44 | rng.Uint64()>>20
	}
	fps := make([]uint64, 100)
	for i := range fps {
		fps[i] = queries[i] ^ 1<<(63-i%8)
	}
	distinct, places, next := distinct(queries)
	g := &group{k: 1, queries: distinct, numbers: places, varying: allVary}
	all := divide(field{0, 64}, 1, 2)
	g.design.blocks = []block{{all[0], shape{}, all}}
	g.prepare()
	g.divideCrowds(1e5, 1<<30)
	if crowdsOf(g) == 0 {
		t.Fatal("no bucket is crowded")
	}
	checkScan(t, &Queries{k: 1, len: len(queries), group: g, next: next}, queries, fps, 1)
	for _, fp := range fps { // as in a crowd within a crowd
		found := 0
		g.find(fp, func(uint32, uint64) { found++ })
		if want := len(bruteForce(distinct, []uint64{fp}, 1)); found != want {
			t.Errorf("%016x: %d found, not %d", fp, found, want)
		}
	}
}

func crowdsOf(g *group) int {
	n := 0
	for _, b := range g.blocks {
		for _, t := range b.tables {
			for _, c := range t.crowded {
				n += 1 + crowdsOf(c)
			}
		}
	}
	return n
}

// TestCrowdsHaveBounds: what they take does not exceed what is allowed by more than the
// tables of the queries themselves.
func TestCrowdsHaveBounds(t *testing.T) {
	rng := rand.New(rand.NewPCG(testseed.Of(t), 18))
	n := 1 << 16
	if testing.Short() {
		n = 1 << 13
	}
	for name, queries := range crowds(rng, n) {
		for _, room := range []int64{1, 1 << 20, 8 << 20} {
			q, err := New(queries, 3, Options{Collection: 1e8, FilterBytes: room})
			if err != nil {
				t.Fatal(err)
			}
			// 12 bytes a query for itself, and in at most 4 tables, with 8 for buckets.
			if most := int64(len(queries))*(16+4*(12+8)) + 2*room; q.Bytes() > most {
				t.Errorf("%s with %d bytes for filters: %d, more than %d: %v", name, room, q.Bytes(), most, q)
			}
		}
	}
}

// TestVarying: what is gathered has the same bits in another place, and goes back there.
func TestVarying(t *testing.T) {
	rng := rand.New(rand.NewPCG(testseed.Of(t), 19))
	for range 300 {
		mask := rng.Uint64() & rng.Uint64() >> rng.IntN(64)
		base, fps := rng.Uint64(), []uint64{}
		for range 40 {
			fps = append(fps, base^rng.Uint64()&mask)
		}
		fps = append(fps, base, base^mask)
		v := varyingOf(fps)
		gathered := v.gather(nil, fps)
		for i, g := range gathered {
			if back := v.spread(g); back != fps[i]&mask && mask != ^uint64(0) {
				t.Fatalf("%016x & %016x is gathered as %016x, which goes back to %016x", fps[i], mask, g, back)
			}
			if g<<v.width != 0 {
				t.Fatalf("%016x of %016x: more than %d bits", g, mask, v.width)
			}
		}
		slices.Sort(fps)
		slices.Sort(gathered)
		for i := range gathered {
			if v.of(fps[i]) != gathered[i] {
				t.Fatalf("bits %016x: the order changes", mask)
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

func TestSortNumbered(t *testing.T) {
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
