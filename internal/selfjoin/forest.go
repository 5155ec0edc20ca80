package selfjoin

import (
	"context"
	"errors"

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

// root returns the smallest node of a node's tree.
func (f Forest) root(n Node) Node {
	for f[n] != n {
		f[n] = f[f[n]]
		n = f[n]
	}
	return n
}

// Join makes one tree of those of two nodes.
func (f Forest) Join(a, b Node) {
	a, b = f.root(a), f.root(b)
	f[max(a, b)] = min(a, b)
}

// Flatten makes each node have its root.
func (f Forest) Flatten() {
	for i, parent := range f {
		f[i] = f[parent]
	}
}

// Edges calls found with the edges of a graph, some at a time.
type Edges func(found func(edges [][2]Node) error) error

// Components returns the smallest node of each of n nodes' components.
func Components(n int, edges Edges) (Forest, error) {
	roots := NewForest(n)
	err := edges(func(edges [][2]Node) error {
		for _, e := range edges {
			roots.Join(e[0], e[1])
		}
		return nil
	})
	roots.Flatten()
	return roots, err
}

// Stars returns the center of each of n nodes; a center has itself. Nodes are taken in the
// order of their ranks, smaller ones first; nil are the nodes' own numbers. One that no
// center before it has taken becomes a center itself, and takes all its neighbours that
// are not taken. Edges come in any order, and are sorted as the options say, 16 bytes each.
func Stars(ctx context.Context, n int, ranks []uint32, o extsort.Options, edges Edges) (owners Forest, err error) {
	rank := func(n Node) uint32 {
		if ranks == nil {
			return n
		}
		return ranks[n]
	}
	sorter := extsort.New[[2]uint64](o) // the rank of the earlier end; that end, and the other
	defer func() { err = errors.Join(err, sorter.Close()) }()
	if err := edges(func(edges [][2]Node) error {
		records := make([][2]uint64, len(edges))
		for i, e := range edges {
			first, second := e[0], e[1]
			if rank(second) < rank(first) {
				first, second = second, first
			}
			records[i] = [2]uint64{uint64(rank(first)), uint64(first)<<32 | uint64(second)}
		}
		return sorter.Add(ctx, records)
	}); err != nil {
		return nil, err
	}
	owners = NewForest(n)
	for run, err := range sorter.Sorted(ctx) {
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
