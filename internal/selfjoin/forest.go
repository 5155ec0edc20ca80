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
	f.reset()
	return f
}

func (f Forest) reset() {
	for i := range f {
		f[i] = Node(i)
	}
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

// StarBuilder takes the edges of a graph, in any order, and makes stars: nodes are
// taken in ascending order, and one that no center before it has taken becomes a center
// itself, and takes all its neighbours that are not taken.
type StarBuilder struct{ edges *extsort.Sorter[[1]uint64] }

// NewStarBuilder sorts edges, of 8 bytes, as the options say. Close must follow.
func NewStarBuilder(o extsort.Options) *StarBuilder {
	return &StarBuilder{extsort.New[[1]uint64](o)}
}

// Add adds edges.
func (b *StarBuilder) Add(ctx context.Context, edges [][2]Node) error {
	records := make([][1]uint64, len(edges))
	for i, e := range edges {
		records[i][0] = uint64(min(e[0], e[1]))<<32 | uint64(max(e[0], e[1]))
	}
	return b.edges.Add(ctx, records)
}

// Owners gives each node its center; a center has itself.
func (b *StarBuilder) Owners(ctx context.Context, owners Forest) error {
	owners.reset()
	for run, err := range b.edges.Sorted(ctx) {
		if err != nil {
			return err
		}
		for _, edge := range run {
			center, node := Node(edge[0]>>32), Node(edge[0])
			if owners[center] == center && owners[node] == node {
				owners[node] = center
			}
		}
	}
	return nil
}

// Close removes temporary files.
func (b *StarBuilder) Close() error { return b.edges.Close() }
