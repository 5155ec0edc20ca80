package selfjoin

import (
	"context"

	"github.com/neardup/neardup/internal/extsort"
)

// Forest is a union-find: it has for each node one of the same tree that is not larger;
// roots have themselves.
type Forest []Node

// NewForest returns n trees of one node.
func NewForest(n int) Forest {
	f := make(Forest, n)
	for i := range f {
		f[i] = Node(i)
	}
	return f
}

// Root returns the smallest node of a node's tree.
func (f Forest) Root(n Node) Node {
	for f[n] != n {
		f[n] = f[f[n]]
		n = f[n]
	}
	return n
}

// Join makes one tree of those of two nodes.
func (f Forest) Join(a, b Node) {
	a, b = f.Root(a), f.Root(b)
	f[max(a, b)] = min(a, b)
}

// Flatten makes each node have its root.
func (f Forest) Flatten() {
	for i, parent := range f {
		f[i] = f[parent]
	}
}

// StarBuilder takes the edges of a graph, in any order, and makes stars. Nodes are taken
// in the order of their ranks. One that no center before it has taken becomes a center
// itself, and takes all its neighbours that are not taken.
type StarBuilder struct {
	ranks []uint32
	edges *extsort.Sorter[[2]uint64] // the rank of the earlier end; that end, and the other
}

// NewStarBuilder makes stars by the ranks of nodes, smaller ones first; nil are the nodes'
// own numbers. Edges are sorted, 16 bytes each, as the options say. Close must follow.
func NewStarBuilder(ranks []uint32, o extsort.Options) *StarBuilder {
	return &StarBuilder{ranks, extsort.New[[2]uint64](o)}
}

// Add adds edges.
func (b *StarBuilder) Add(ctx context.Context, edges [][2]Node) error {
	records := make([][2]uint64, len(edges))
	for i, e := range edges {
		first, second := e[0], e[1]
		if b.rank(second) < b.rank(first) {
			first, second = second, first
		}
		records[i] = [2]uint64{uint64(b.rank(first)), uint64(first)<<32 | uint64(second)}
	}
	return b.edges.Add(ctx, records)
}

func (b *StarBuilder) rank(n Node) uint32 {
	if b.ranks == nil {
		return n
	}
	return b.ranks[n]
}

// Owners returns the center of each of n nodes; a center has itself. Call it once.
func (b *StarBuilder) Owners(ctx context.Context, n int) (Forest, error) {
	owners := NewForest(n)
	for run, err := range b.edges.Sorted(ctx) {
		if err != nil {
			return nil, err
		}
		for _, edge := range run {
			center, node := Node(edge[1]>>32), Node(edge[1])
			if owners[center] == center && owners[node] == node {
				owners[node] = center
			}
		}
	}
	return owners, nil
}

// Close removes temporary files.
func (b *StarBuilder) Close() error { return b.edges.Close() }
