package selfjoin

import (
	"context"
	"iter"
	"slices"
	"sync"

	"github.com/neardup/neardup/internal/extsort"
)

// Clusters are groups of nodes, disjoint. A node that is near to no other is in none,
// unless it has copies: then it is a cluster of its own.
type Clusters struct {
	nodes []Node
	ends  []int
}

// All yields the nodes of each cluster, by its first node. Of Components, the first one
// is the smallest; of Stars it is the center. The rest ascend.
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

// Components returns the connected components: two nodes are in one if a chain of pairs
// leads from one to the other. Members may be farther from each other than
// MaxDistance, and a long chain can join what is not alike at all; Stars has no chains.
// It takes 8 bytes a node besides what Each takes. Errors are those of Each.
func (s *Set) Components(ctx context.Context, o Options) (*Clusters, error) {
	roots, err := Components(len(s.fps), s.edgesWithin(ctx, o))
	if err != nil {
		return nil, err
	}
	return s.gather(roots), nil
}

// Stars takes the nodes in the order of their ranks. One that no center before it has
// taken becomes a center itself, and takes all nodes within MaxDistance of it that are
// not taken. So every member of a cluster is near to its first node, and no two centers
// are near to each other.
//
// ranks has a different number for each node, smaller ones first; nil ranks them by
// their fingerprints. All pairs are sorted, with 256 MiB of memory and, where that is
// not enough, a file in the folder for temporary files of 16 bytes a pair; besides, it
// takes 8 bytes a node. Errors are those of Each, and of the file.
func (s *Set) Stars(ctx context.Context, o Options, ranks []uint32) (*Clusters, error) {
	owners, err := Stars(ctx, len(s.fps), ranks, extsort.Options{MemoryBytes: 256 << 20}, s.edgesWithin(ctx, o))
	if err != nil {
		return nil, err
	}
	return s.gather(owners), nil
}

// edgesWithin gives the pairs of nodes within the distance.
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

// Edges returns the nodes of pairs.
func (s *Set) Edges(pairs []Pair) [][2]Node {
	ends := make([]fp, 0, 2*len(pairs))
	for _, p := range pairs {
		ends = append(ends, p.First, p.Second)
	}
	return s.edges(ends)
}

// edges returns the nodes of fingerprints of the set, two by two.
func (s *Set) edges(ends []fp) [][2]Node {
	edges := make([][2]Node, 0, len(ends)/2)
	for nodes := range slices.Chunk(s.nodesOf(ends), 2) {
		edges = append(edges, [2]Node(nodes))
	}
	return edges
}

// gather makes clusters of nodes that have the same owner; the owner is one of them,
// and has itself.
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
	places := sizes // of the next member, once the cluster is there
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

// Ranks returns ranks for Stars: the place of each node among all when they are sorted.
// To compare no two nodes may be equal.
func (s *Set) Ranks(compare func(a, b Node) int) []uint32 {
	order := NewForest(len(s.fps))
	slices.SortFunc(order, compare)
	ranks := make([]uint32, len(order))
	for rank, node := range order {
		ranks[node] = uint32(rank)
	}
	return ranks
}
