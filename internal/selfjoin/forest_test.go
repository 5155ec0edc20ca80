package selfjoin

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/neardup/neardup/internal/extsort"
	"github.com/neardup/neardup/internal/testenv"
)

// randomGraph returns edges between n nodes: a path in any order, or some at random.
func randomGraph(r *rand.Rand, n int) (edges [][2]Node) {
	if order := r.Perm(n); r.IntN(2) == 0 {
		for i := range n - 1 {
			if r.IntN(50) > 0 {
				edges = append(edges, [2]Node{Node(order[i]), Node(order[i+1])})
			}
		}
	}
	for range r.IntN(n) {
		if a, b := r.IntN(n), r.IntN(n); a != b {
			edges = append(edges, [2]Node{Node(a), Node(b)})
		}
	}
	return edges
}

func TestForestsAndStarsOfGraphs(t *testing.T) {
	seed := testenv.Seed(t)
	r := rand.New(rand.NewPCG(seed, 13))
	const none = ^Node(0)
	for range 50 {
		n := 1 + r.IntN(400)
		edges := randomGraph(r, n)
		near := make([][]Node, n)
		f := NewForest(n)
		for _, e := range edges {
			near[e[0]] = append(near[e[0]], e[1])
			near[e[1]] = append(near[e[1]], e[0])
			f.Join(e[0], e[1])
		}
		components, stars := slices.Clone(f), slices.Clone(f)
		for i := range Node(n) {
			components[i], stars[i] = i, none
		}
		for changed := true; changed; {
			changed = false
			for _, e := range edges {
				a, b := &components[e[0]], &components[e[1]]
				changed = changed || *a != *b
				*a, *b = min(*a, *b), min(*a, *b)
			}
		}
		for node := range Node(n) {
			if stars[node] != none {
				continue
			}
			stars[node] = node
			for _, member := range near[node] {
				if stars[member] == none {
					stars[member] = node
				}
			}
		}
		f.Flatten()
		if !slices.Equal(f, components) {
			t.Fatalf("seed %d: components of %v are %v, want %v", seed, edges, f, components)
		}
		r.Shuffle(len(edges), func(i, j int) { edges[i], edges[j] = edges[j], edges[i] })
		f, err := Stars(t.Context(), n, nil, extsort.Options{MemoryBytes: 1, Dir: t.TempDir()}, func(found func([][2]Node) error) error { return found(edges) })
		must(t, err)
		if !slices.Equal(f, stars) {
			t.Fatalf("seed %d: stars of %v are %v, want %v", seed, edges, f, stars)
		}
	}
}
