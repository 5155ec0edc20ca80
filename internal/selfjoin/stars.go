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
// takes 12 bytes a node. Errors are those of Each, and of the file.
func (s *Set) Stars(ctx context.Context, o Options, ranks []uint32) (clusters *Clusters, err error) {
	sorter := extsort.New[[1]uint64](extsort.Options{MemoryBytes: 256 << 20})
	defer func() { err = errors.Join(err, sorter.Close()) }()
	rank := func(n Node) uint32 {
		if ranks == nil {
			return n
		}
		return ranks[n]
	}
	var mu sync.Mutex
	err = s.Each(ctx, o, func(_ int, pairs []Pair) error {
		records := make([][1]uint64, len(pairs))
		for i, e := range s.edges(pairs) {
			if rank(e[0]) > rank(e[1]) {
				e[0], e[1] = e[1], e[0]
			}
			records[i][0] = uint64(rank(e[0]))<<32 | uint64(e[1])
		}
		mu.Lock()
		defer mu.Unlock()
		return sorter.Add(ctx, records)
	})
	if err != nil {
		return nil, err
	}
	owner := newForest(len(s.fps))
	taken := make([]bool, len(s.fps))
	nodes := byRank(ranks)
	for run, err := range sorter.Sorted(ctx) {
		if err != nil {
			return nil, err
		}
		for _, r := range run {
			center, member := nodes(uint32(r[0]>>32)), Node(r[0])
			if !taken[center] && !taken[member] {
				taken[member] = true
				owner[member] = center
			}
		}
	}
	return s.gather(owner), nil
}

// byRank returns a function that gives the node of a rank.
func byRank(ranks []uint32) func(rank uint32) Node {
	if ranks == nil {
		return func(rank uint32) Node { return rank }
	}
	order := make([]Node, slices.Max(append([]uint32{0}, ranks...))+1)
	for node, rank := range ranks {
		order[rank] = Node(node)
	}
	return func(rank uint32) Node { return order[rank] }
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
