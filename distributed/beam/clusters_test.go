package beam

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/neardup/neardup/internal/testing/testenv"
)

// graphs have n nodes. Each node is connected with some earlier ones.
var graphs = []struct {
	name   string
	n      int
	before func(r *rand.Rand, i int) []int
}{
	{"chain", 3000, func(_ *rand.Rand, i int) []int { return []int{i - 1} }},
	{"star", 500, func(*rand.Rand, int) []int { return []int{0} }},
	{"clique", 40, func(r *rand.Rand, i int) []int { return r.Perm(i) }},
	{"tree", 2000, func(r *rand.Rand, i int) []int { return []int{r.IntN(i)} }},
	{"sparse", 100_000, func(r *rand.Rand, i int) []int { return []int{r.IntN(i)}[r.IntN(2):] }},
	{"nothing", 1, nil},
}

// TestComponentsAreUnionFind compares the members with a simple search for components. Some edges
// are repeated, and some graphs do not fit in memory.
func TestComponentsAreUnionFind(t *testing.T) {
	seed := testenv.Seed(t)
	r := rand.New(rand.NewPCG(seed, 1))
	for _, g := range graphs {
		for _, random := range []bool{false, true} {
			names, ends, pairs := make([]fp, g.n), []fp(nil), []Pair(nil)
			for i := range names {
				if names[i] = fp(i); random {
					names[i] = fp(r.Uint64())
				}
				if i == 0 {
					continue
				}
				for _, other := range g.before(r, i) {
					p := Pair{min(names[i], names[other]), max(names[i], names[other])}
					pairs, ends = append(pairs, p), append(ends, p.Second, p.First)
				}
			}
			var blobs [][]byte
			for part := range slices.Chunk(append(ends, ends[:len(ends)/4*2]...), 2000) {
				blobs = append(blobs, packed(part))
			}
			var got []string
			u := &unite{Memory: 1 << 20}
			if err := u.ProcessElement(t.Context(), 0, eachOf(blobs),
				func(m Member) { got = append(got, memberLine(m)) }); err != nil {
				t.Fatal(err)
			}
			want := componentLines(pairs)
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("seed %d, %s, random %t: %d members, want %d", seed, g.name, random,
					len(got), len(want))
			}
		}
	}
	for _, n := range []int{1, 8, 15, 24} {
		if err := (&unite{Memory: 1 << 20}).ProcessElement(t.Context(), 0,
			eachOf([][]byte{make([]byte, n)}), func(Member) {}); !errors.Is(err, errData) {
			t.Errorf("edges of %d bytes: %v", n, err)
		}
	}
}
