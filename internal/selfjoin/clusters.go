package selfjoin

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"

	"github.com/neardup/neardup/internal/extsort"
)

// Clusters is a set of disjoint clusters of nodes. A node without near nodes is in no cluster if it
// has one copy. If it has more copies, it is a cluster of its own.
type Clusters struct {
	nodes []Node
	ends  []int
}

// All yields the nodes of each cluster, in ascending order of their first nodes. The first node of
// a cluster is the smallest for Components, and the center for Stars. The other nodes ascend.
func (c *Clusters) All() iter.Seq[[]Node] {
	return func(yield func([]Node) bool) {
		begin := 0
		for _, end := range c.ends {
			if !yield(c.nodes[begin:end:end]) {
				return
			}
			begin = end
		}
	}
}

// Components returns the connected components: two nodes are in the same component if a chain of
// pairs connects them. The distance of two members may exceed MaxDistance, and a long chain can
// connect unrelated nodes. Stars has no chains. Components needs 8 bytes per node in addition to
// the memory of Each. It returns the errors of Each.
func (s *Set) Components(ctx context.Context, o Options) (*Clusters, error) {
	roots, err := Components(len(s.fps), s.edgesWithin(ctx, o))
	if err != nil {
		return nil, err
	}
	return s.gather(roots), nil
}

// Stars returns clusters of a center and nodes near the center. It visits the nodes in ascending
// order of their ranks. A node that is in no cluster yet becomes a center, and all nodes within
// MaxDistance that are in no cluster join it. So no two centers are near each other.
//
// ranks has a different number for each node. If it is nil, the rank is the fingerprint. Like
// [Stars], it sorts 16 bytes per pair. In addition to the memory of Each, it needs 8 bytes per
// node. It returns the errors of Each and [Stars].
func (s *Set) Stars(ctx context.Context, o Options, ranks []uint32) (*Clusters, error) {
	owners, err := Stars(ctx, len(s.fps), ranks, s.edgesWithin(ctx, o))
	if err != nil {
		return nil, err
	}
	return s.gather(owners), nil
}

// edgesWithin returns the pairs of nodes within the distance.
func (s *Set) edgesWithin(ctx context.Context, o Options) Edges {
	return func(found func([][2]Node) error) error {
		var mu sync.Mutex
		return s.Each(ctx, o, func(_ int, pairs []Pair) error {
			edges := s.Edges(pairs)
			mu.Lock()
			defer mu.Unlock()
			return found(edges)
		})
	}
}

// Edges returns the two nodes of each pair.
func (s *Set) Edges(pairs []Pair) [][2]Node {
	ends := make([]fp, 0, 2*len(pairs))
	for _, p := range pairs {
		ends = append(ends, p.First, p.Second)
	}
	edges := make([][2]Node, 0, len(pairs))
	for nodes := range slices.Chunk(s.nodesOf(ends), 2) {
		edges = append(edges, [2]Node(nodes))
	}
	return edges
}

// gather returns the clusters of the nodes with the same owner. The owner is a node of the cluster
// and its own owner.
func (s *Set) gather(owner []Node) *Clusters {
	sizes := make([]uint32, len(owner))
	for node, of := range owner {
		if of != Node(node) {
			sizes[of]++
		}
	}
	for _, r := range s.repeats {
		if owner[r.node] == r.node && sizes[r.node] == 0 {
			sizes[r.node] = alone
		}
	}
	c := &Clusters{}
	places := sizes // the position of the next member of each cluster
	at := 0
	for node, size := range sizes {
		switch size {
		case 0:
			continue
		case alone:
			size = 0
		}
		c.nodes = append(c.nodes, Node(node))
		c.nodes = append(c.nodes, make([]Node, size)...)
		places[node] = uint32(at + 1)
		at += int(size) + 1
		c.ends = append(c.ends, at)
	}
	for node, of := range owner {
		if of != Node(node) {
			c.nodes[places[of]] = Node(node)
			places[of]++
		}
	}
	return c
}

// alone is the size of a cluster of one node.
const alone = ^uint32(0)

// Edges calls found with all edges of a graph, in batches of any size. If found returns an error,
// it stops and returns the error.
type Edges func(found func(edges [][2]Node) error) error

// Components returns, for each of n nodes, the smallest node of its connected component.
func Components(n int, edges Edges) ([]Node, error) {
	// The parent of a node is not larger than the node. A root is its own parent.
	parents := singletons(n)
	root := func(n Node) Node {
		for parents[n] != n {
			parents[n] = parents[parents[n]]
			n = parents[n]
		}
		return n
	}
	err := edges(func(edges [][2]Node) error {
		for _, e := range edges {
			a, b := root(e[0]), root(e[1])
			parents[max(a, b)] = min(a, b)
		}
		return nil
	})
	for i, parent := range parents {
		parents[i] = parents[parent]
	}
	return parents, err
}

// starMemory is the memory for sorting the edges of Stars.
const starMemory = 64 << 20

// Stars returns the center of each of n nodes; a center is its own center. It visits the nodes in
// ascending order of their ranks, or of their numbers if ranks is nil. A node without a center
// becomes a center, and also the center of its neighbors without a center. Stars sorts the edges,
// 16 bytes per edge. Edges that exceed 64 MiB are sorted in a temporary file. It returns the errors
// of edges and of this file.
func Stars(ctx context.Context, n int, ranks []uint32, edges Edges) (centers []Node, err error) {
	rank := func(n Node) uint32 {
		if ranks == nil {
			return n
		}
		return ranks[n]
	}
	// A record is the rank of the edge's earlier node, and both nodes, the earlier one first.
	sorter := extsort.New[[2]uint64](extsort.Options{MemoryBytes: starMemory})
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
		return sorter.Add(records...)
	}); err != nil {
		return nil, err
	}
	centers = singletons(n)
	for run, err := range sorter.Sorted(ctx) {
		if err != nil {
			return nil, err
		}
		for _, edge := range run {
			center, node := Node(edge[1]>>32), Node(edge[1])
			if centers[center] == center && centers[node] == node {
				centers[node] = center
			}
		}
	}
	return centers, nil
}

// singletons returns the numbers of n nodes.
func singletons(n int) []Node {
	nodes := make([]Node, n)
	for i := range nodes {
		nodes[i] = Node(i)
	}
	return nodes
}
