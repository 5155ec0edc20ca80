package index

import (
	"container/heap"
	"context"
	"iter"
	"math/bits"
	"slices"

	"github.com/neardup/neardup/store"
)

// hit is a stored fingerprint within the distance of a query.
type hit struct {
	stored   uint64
	distance int
}

// checkEvery is the number of probes and candidates between two looks at the context.
const checkEvery = 1 << 16

// search probes the tables and returns every stored fingerprint within k bits of
// the given one, once each, nearest first. k must not exceed the plan's.
func (x *Index) search(ctx context.Context, v *store.View, stored uint64, k int) ([]hit, error) {
	var hits []hit
	steps := 0
	var cancelled error
	goOn := func() bool {
		if steps++; steps%checkEvery == 0 {
			cancelled = ctx.Err()
		}
		return cancelled == nil
	}
	for i, t := range x.plan.Tables {
		query := t.Permutation.apply(stored)
		probe := func(flips uint64) error {
			if !goOn() {
				return cancelled
			}
			first := (query ^ flips) >> (64 - t.Prefix) << (64 - t.Prefix)
			last := first | ^(^uint64(0) << (64 - t.Prefix))
			err := v.Scan(i, first, last, func(candidate uint64) bool {
				if !goOn() {
					return false
				}
				// A permutation keeps distances, so only a match is turned back.
				if distance := bits.OnesCount64(candidate ^ query); distance <= k {
					fp := t.Permutation.invert(candidate)
					if !x.coveredBefore(i, fp^stored) {
						hits = append(hits, hit{fp, distance})
					}
				}
				return true
			})
			if cancelled != nil {
				return cancelled
			}
			return err
		}
		if err := eachPrefix(t, probe); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(hits, func(a, b hit) int { return a.distance - b.distance })
	return hits, nil
}

// coveredBefore reports whether a table before the i-th finds what differs in
// these bits, so that each match is taken from the first table that has it.
func (x *Index) coveredBefore(i int, flips uint64) bool {
	for j, t := range x.plan.Tables[:i] {
		if t.covers(flips, x.masks[j]) {
			return true
		}
	}
	return false
}

// eachPrefix calls probe with every set of at most Radius flips in the prefix of a
// permuted fingerprint, the empty one first.
func eachPrefix(t Table, probe func(flips uint64) error) error {
	var walk func(flips uint64, from, left int) error
	walk = func(flips uint64, from, left int) error {
		if err := probe(flips); err != nil || left == 0 {
			return err
		}
		for bit := from; bit < t.Prefix; bit++ {
			if err := walk(flips|1<<(63-bit), bit+1, left-1); err != nil {
				return err
			}
		}
		return nil
	}
	return walk(0, 0, t.Radius)
}

// found is a document of a hit, before its record is read.
type found struct {
	id uint64
	hit
}

// documents yields the documents of the hits by (distance, ID), reading a posting
// only when its distance is reached. Hits must be sorted by distance.
func documents(v *store.View, hits []hit) iter.Seq2[found, error] {
	return func(yield func(found, error) bool) {
		for len(hits) > 0 {
			n := 1
			for n < len(hits) && hits[n].distance == hits[0].distance {
				n++
			}
			postings, err := openPostings(v, hits[:n])
			if err != nil {
				yield(found{}, err)
				return
			}
			for len(postings) > 0 {
				if !yield(postings[0].found, nil) {
					return
				}
				postings.advance()
			}
			hits = hits[n:]
		}
	}
}

// postings is a heap of the postings of hits at one distance, by their next ID.
type postings []posting

type posting struct {
	found
	next func() (uint64, bool)
}

func openPostings(v *store.View, hits []hit) (postings, error) {
	var h postings
	for _, hit := range hits {
		ids, err := v.Posting(hit.stored)
		if err != nil {
			return nil, err
		}
		next := ids.Iterator()
		if id, ok := next(); ok {
			h = append(h, posting{found{id, hit}, next})
		}
	}
	heap.Init(&h)
	return h, nil
}

func (h *postings) advance() {
	top := &(*h)[0]
	id, ok := top.next()
	if !ok {
		heap.Pop(h)
		return
	}
	top.id = id
	heap.Fix(h, 0)
}

func (h postings) Len() int           { return len(h) }
func (h postings) Less(i, j int) bool { return h[i].id < h[j].id }
func (h postings) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *postings) Push(p any)        { *h = append(*h, p.(posting)) }
func (h *postings) Pop() any {
	last := len(*h) - 1
	p := (*h)[last]
	*h = (*h)[:last]
	return p
}
