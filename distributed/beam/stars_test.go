package beam

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/runners/prism"

	"github.com/neardup/neardup/internal/testseed"
)

// graphs are edges between the numbers below n.
var graphs = []struct {
	name  string
	n     int
	edges func(r *rand.Rand, n int) [][2]int
}{
	{"chain", 3000, func(_ *rand.Rand, n int) (edges [][2]int) {
		for i := range n - 1 {
			edges = append(edges, [2]int{i, i + 1})
		}
		return edges
	}},
	{"clique", 40, func(_ *rand.Rand, n int) (edges [][2]int) {
		for i := range n {
			for j := range i {
				edges = append(edges, [2]int{i, j})
			}
		}
		return edges
	}},
	{"star", 500, func(_ *rand.Rand, n int) (edges [][2]int) {
		for i := 1; i < n; i++ {
			edges = append(edges, [2]int{0, i})
		}
		return edges
	}},
	{"sparse", 2000, func(r *rand.Rand, n int) (edges [][2]int) {
		for range n / 2 {
			if a, b := r.IntN(n), r.IntN(n); a != b {
				edges = append(edges, [2]int{a, b}, [2]int{b, a})
			}
		}
		return edges
	}},
	{"tree", 2000, func(r *rand.Rand, n int) (edges [][2]int) {
		for i := 1; i < n; i++ {
			edges = append(edges, [2]int{i, r.IntN(i)})
		}
		return edges
	}},
	{"nothing", 1, func(*rand.Rand, int) [][2]int { return nil }},
}

// pairsOf gives a graph's nodes names: random ones, or their numbers.
func pairsOf(r *rand.Rand, edges [][2]int, n int, random bool) (pairs []Pair) {
	names := make([]fp, n)
	for i := range names {
		if names[i] = fp(i); random {
			names[i] = fp(r.Uint64())
		}
	}
	for _, e := range edges {
		a, b := names[e[0]], names[e[1]]
		pairs = append(pairs, Pair{min(a, b), max(a, b)})
	}
	return pairs
}

// members are those of a graph that no bundle contracted.
func (p *pipeline) members(pairs []Pair, o Options) beam.PCollection {
	o.must(64)
	var blob []fp
	for _, pair := range pairs {
		blob = append(blob, pair.Second, pair.First)
	}
	var blobs [][]byte
	states := []status{{int64(len(pairs)), 1}}
	blobs = append(blobs, nil) // a collection wants a value
	for ; len(blob) > 0; blob = blob[min(len(blob), 200):] {
		blobs = append(blobs, packed(blob[:min(len(blob), 200)]))
	}
	return membersOf(p.root, &o, beam.CreateList(p.root, blobs), beam.CreateList(p.root, states))
}

// TestRoundsAreUnionFind: of every graph the rounds give what following its edges gives, whether
// nothing fits, a part, or all.
func TestRoundsAreUnionFind(t *testing.T) {
	seed := testseed.Of(t)
	r := rand.New(rand.NewPCG(seed, 1))
	for _, g := range graphs {
		for _, random := range []bool{false, true} {
			pairs := pairsOf(r, g.edges(r, g.n), g.n, random)
			p := newPipeline(t)
			for _, o := range []Options{{edges: -1, Groups: 4}, {edges: int64(len(pairs)) * 2 / 3, Groups: 1}} {
				p.want(fmt.Sprintf("seed %d, %s, random %t, %+v", seed, g.name, random, o), p.members(pairs, o), componentLines(pairs))
			}
			p.run()
		}
	}
}

// TestEdgesLargerThanMemory: edges that are sorted in files come as those that are not.
func TestEdgesLargerThanMemory(t *testing.T) {
	seed := testseed.Of(t)
	r := rand.New(rand.NewPCG(seed, 1))
	var blobs [][]byte
	for range 400 {
		ends := make([]fp, 0, 2000)
		for range 1000 {
			a, b := r.Uint64N(3000), r.Uint64N(1000)*0x9e3779b97f4a7c15
			ends = append(ends, fp(a), fp(b|1<<63))
		}
		blobs = append(blobs, packed(ends))
	}
	var got [2][]edge
	for i, memory := range []int64{1 << 30, 1 << 20} {
		if err := ascending(context.Background(), memory, eachOf(blobs), func(e edge) { got[i] = append(got[i], e) }); err != nil {
			t.Fatal(err)
		}
	}
	if len(got[0]) < 300_000 || !slices.Equal(got[0], got[1]) {
		t.Errorf("seed %d: %d edges in memory, %d in files", seed, len(got[0]), len(got[1]))
	}
}

// TestTooFewRounds: a chain that is not done is an error, and not half of a cluster.
func TestTooFewRounds(t *testing.T) {
	p := newPipeline(t)
	pairs := pairsOf(nil, graphs[0].edges(nil, 3000), 3000, false)
	p.want("", p.members(pairs, Options{edges: -1, rounds: 1}), nil)
	if _, err := prism.Execute(context.Background(), p.Pipeline); err == nil || !strings.Contains(err.Error(), ErrRounds.Error()) {
		t.Errorf("%v, want %v", err, ErrRounds)
	}
}
