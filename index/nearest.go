package index

import (
	"container/heap"
	"iter"
)

// found is a document of a hit, before its record is read.
type found struct {
	id  uint64
	hit *hit
}

// documents yields the documents of the hits by (distance, ID), reading a posting
// only when its distance is reached. Hits must be sorted by distance.
func (r *reader) documents(hits []hit) iter.Seq2[found, error] {
	return func(yield func(found, error) bool) {
		for len(hits) > 0 {
			n := 1
			for n < len(hits) && hits[n].distance == hits[0].distance {
				n++
			}
			if !r.documentsAt(hits[:n], yield) {
				return
			}
			hits = hits[n:]
		}
	}
}

// documentsAt yields the documents of hits at one distance.
func (r *reader) documentsAt(hits []hit, yield func(found, error) bool) bool {
	var h postings
	for i := range hits {
		ids, err := r.posting(&hits[i])
		if err != nil {
			return yield(found{}, err) && false
		}
		next := ids.Iterator()
		if len(hits) == 1 { // as a rule
			for id, ok := next(); ok; id, ok = next() {
				if !yield(found{id, &hits[i]}, nil) {
					return false
				}
			}
			return true
		}
		if id, ok := next(); ok {
			h = append(h, posting{found{id, &hits[i]}, next})
		}
	}
	heap.Init(&h)
	for len(h) > 0 {
		if !yield(h[0].found, nil) {
			return false
		}
		h.advance()
	}
	return true
}

// postings is a heap of the postings of hits at one distance, by their next ID.
type postings []posting

type posting struct {
	found
	next func() (uint64, bool)
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
