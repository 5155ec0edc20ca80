package selfjoin

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/neardup/neardup/internal/extsort"
)

// Stars takes the nodes in the order of their ranks. One that no representative before
// it has taken becomes a representative itself, and takes all nodes within MaxDistance
// of it that are not taken. So every member of a cluster is near to its first node, and
// no two representatives are near to each other.
//
// ranks has a different number for each node, smaller ones first; nil ranks them by
// their fingerprints. All pairs are sorted, with 256 MiB of memory and, where that is
// not enough, a file in the folder for temporary files of 8 bytes a pair; besides, it
// takes 16 bytes a node, and 8 a rank that no node has. Errors are those of Each, and of the file.
func (s *Set) Stars(ctx context.Context, o Options, ranks []uint32) (clusters *Clusters, err error) {
	stars := NewStarBuilder(extsort.Options{MemoryBytes: 256 << 20})
	defer func() { err = errors.Join(err, stars.Close()) }()
	var mu sync.Mutex
	err = s.Each(ctx, o, func(_ int, pairs []Pair) error {
		edges := s.edges(pairs)
		if ranks != nil {
			for i, e := range edges {
				edges[i] = [2]Node{ranks[e[0]], ranks[e[1]]}
			}
		}
		mu.Lock()
		defer mu.Unlock()
		return stars.Add(ctx, edges)
	})
	if err != nil {
		return nil, err
	}
	if ranks == nil {
		owners := make(Forest, len(s.fps))
		err := stars.Owners(ctx, owners)
		return s.gather(owners), err
	}
	nodes := byRank(ranks)
	owners := make(Forest, len(nodes))
	if err := stars.Owners(ctx, owners); err != nil {
		return nil, err
	}
	of := make(Forest, len(s.fps))
	for node, rank := range ranks {
		of[node] = nodes[owners[rank]]
	}
	return s.gather(of), nil
}

// byRank returns the node of each rank.
func byRank(ranks []uint32) []Node {
	if len(ranks) == 0 {
		return nil
	}
	nodes := make([]Node, slices.Max(ranks)+1)
	for node, rank := range ranks {
		nodes[rank] = Node(node)
	}
	return nodes
}

// Ranks returns ranks for Stars: the place of each node among all when they are sorted.
// before must be a strict order of nodes of which no two are equal.
func (s *Set) Ranks(before func(a, b Node) bool) []uint32 {
	order := make([]Node, len(s.fps))
	for i := range order {
		order[i] = Node(i)
	}
	slices.SortFunc(order, func(a, b Node) int {
		switch {
		case a == b:
			return 0
		case before(a, b):
			return -1
		}
		return 1
	})
	ranks := make([]uint32, len(order))
	for rank, node := range order {
		ranks[node] = uint32(rank)
	}
	return ranks
}
