package index

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"iter"

	"github.com/neardup/neardup/internal/match"
	"github.com/neardup/neardup/store"
)

// Query asks for the stored documents near to a fingerprint, or to all three of a Signature. It is made as
//
//	index.Query{Signature: fingerprint.Signature{Fingerprint: f}, MaxDistance: 2}
//
// Its fields:
//
//	Signature   fingerprint.Signature // embedded: Fingerprint, Shingle, Tokens. A Shingle or Tokens of 0 is not compared
//	Scope       string                // of the documents asked for
//	MaxDistance int                   // in bits, at most the k of the index. 0: that k. Exact: only equal fingerprints
//	Limit       int                   // how many matches, the nearest ones. 0: all
type Query = match.Query

func storedOfQuery(q *Query) uint64 { return store.Stored(uint64(q.Fingerprint), q.Scope) }

// Query returns the stored documents that match q, by (Distance, ID). It costs one range
// scan a probe of the plan, one read a distinct matching fingerprint and two a match.
// Errors: ErrDistance, ErrClosed, ErrCorrupt, ctx's.
func (x *Index) Query(ctx context.Context, q Query) (matches []Match, err error) {
	if err := x.begin(ctx); err != nil {
		return nil, err
	}
	defer x.end()
	r := x.reader()
	defer func() { err = errors.Join(err, r.close()) }()
	k, err := q.Within(r.s.plan.MaxDistance)
	if err != nil {
		return nil, err
	}
	return r.query(ctx, &q, k)
}

// query looks within k bits.
func (r *reader) query(ctx context.Context, q *Query, k int) (matches []Match, err error) {
	hits, err := r.search(ctx, storedOfQuery(q), k)
	if err == nil {
		matches, err = r.matches(ctx, q, hits, nil)
	}
	if !errors.Is(err, errConflict) {
		return matches, err
	}
	if err := r.take(); err != nil {
		return nil, err
	}
	return r.query(ctx, q, k) // with a view, nothing can come in between
}

// matches returns the documents of hits, which are sorted, that a query asks for, without those of some IDs.
func (r *reader) matches(ctx context.Context, q *Query, hits []hit, without map[uint64]bool) ([]Match, error) {
	var matches []Match
	for c, err := range r.candidates(hits) {
		if err := cmp.Or(err, ctx.Err()); err != nil {
			return nil, err
		}
		if without[c.id] {
			continue
		}
		d, ok, err := r.matching(c, q)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		matches = append(matches, Match{Document: d, Distance: int(c.hit.distance)})
		if len(matches) == q.Limit {
			break
		}
	}
	return matches, nil
}

// candidate is a document of a hit, before its record is read.
type candidate struct {
	id  uint64
	hit *hit
}

// candidates yields the documents of the hits by (distance, ID), reading a posting only
// when its distance is reached. Hits must be sorted by distance.
func (r *reader) candidates(hits []hit) iter.Seq2[candidate, error] {
	return func(yield func(candidate, error) bool) {
		for len(hits) > 0 {
			n := 1
			for n < len(hits) && hits[n].distance == hits[0].distance {
				n++
			}
			if !r.candidatesAt(hits[:n], yield) {
				return
			}
			hits = hits[n:]
		}
	}
}

// candidatesAt yields the documents of hits at one distance.
func (r *reader) candidatesAt(hits []hit, yield func(candidate, error) bool) bool {
	var h postings
	for i := range hits {
		ids, err := r.posting(&hits[i])
		if err != nil {
			yield(candidate{}, err)
			return false
		}
		next := ids.Iterator()
		id, ok := next()
		if len(hits) == 1 { // as a rule
			for ; ok; id, ok = next() {
				if !yield(candidate{id, &hits[i]}, nil) {
					return false
				}
			}
			return true
		}
		if ok {
			h = append(h, posting{candidate{id, &hits[i]}, next})
		}
	}
	heap.Init(&h)
	for len(h) > 0 {
		if !yield(h[0].candidate, nil) {
			return false
		}
		if id, ok := h[0].next(); ok {
			h[0].id = id
			heap.Fix(&h, 0)
		} else {
			heap.Pop(&h)
		}
	}
	return true
}

// postings is a heap of the postings of hits at one distance, by their next ID.
type postings []posting

type posting struct {
	candidate
	next func() (uint64, bool)
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
