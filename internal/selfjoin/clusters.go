package selfjoin

import (
	"context"
	"iter"
	"sync"
)

// Clusters are groups of nodes, disjoint. A node that is near to no other is in none,
// unless it has copies: then it is a cluster of its own.
type Clusters struct {
	nodes []Node
	ends  []int
}

// Len returns the number of clusters.
func (c *Clusters) Len() int { return len(c.ends) }

// All yields the nodes of each cluster, by its first node. Of Components, the first one
// is the smallest; of Stars it is the representative. The rest ascend.
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
	roots := NewForest(len(s.fps))
	var mu sync.Mutex
	err := s.Each(ctx, o, func(_ int, pairs []Pair) error {
		edges := s.edges(pairs)
		mu.Lock()
		defer mu.Unlock()
		for _, e := range edges {
			roots.Join(e[0], e[1])
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	roots.Flatten()
	return s.gather(roots), nil
}

// edges returns the nodes of pairs.
func (s *Set) edges(pairs []Pair) [][2]Node {
	edges := make([][2]Node, len(pairs))
	for i, p := range pairs {
		edges[i][0], _ = s.Node(p.First)
		edges[i][1], _ = s.Node(p.Second)
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
