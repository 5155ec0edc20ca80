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

// Query asks for the stored documents that match a fingerprint, or a whole Signature. An example:
//
//	index.Query{Signature: fingerprint.Signature{Fingerprint: f}, MaxDistance: 2}
//
// Its fields:
//
//	Signature   fingerprint.Signature // embedded; zero Shingles or Tokens are not compared
//	Scope       string                // only documents of this scope match
//	MaxDistance int                   // at most k. 0: k. Exact: only equal fingerprints
//	Limit       int                   // largest number of matches, the nearest ones. 0: all
type Query = match.Query

func storedOfQuery(q *Query) uint64 { return store.Stored(uint64(q.Fingerprint), q.Scope) }

// Query returns the stored documents that match q, ordered by Distance, then ID. It makes one range
// scan per probe of the plan, one read per fingerprint within the distance, and one read per
// document with such a fingerprint. Errors: ErrDistance, ErrClosed, ErrCorrupt and the error of the
// context.
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

// query searches within k bits.
func (r *reader) query(ctx context.Context, q *Query, k int) (matches []Match, err error) {
	hits, err := r.search(ctx, storedOfQuery(q), k)
	if err != nil {
		return nil, err
	}
	return r.matches(ctx, q, hits)
}

// matches returns the documents of hits, which are sorted, that match a query.
func (r *reader) matches(ctx context.Context, q *Query, hits []hit) ([]Match, error) {
	var matches []Match
	for c, err := range r.hitIDs(hits) {
		if err := cmp.Or(err, ctx.Err()); err != nil {
			return nil, err
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

// hitID is the ID of a document of a hit. The document may have been removed, or may not match.
type hitID struct {
	id  uint64
	hit *hit
}

// hitIDs yields the IDs of the hits by (distance, ID), and reads the IDs of a hit only when its
// distance is reached. Hits must be sorted by distance.
func (r *reader) hitIDs(hits []hit) iter.Seq2[hitID, error] {
	return func(yield func(hitID, error) bool) {
		for len(hits) > 0 {
			n := 1
			for n < len(hits) && hits[n].distance == hits[0].distance {
				n++
			}
			if more, err := r.hitIDsAt(hits[:n], yield); err != nil {
				yield(hitID{}, err)
				return
			} else if !more {
				return
			}
			hits = hits[n:]
		}
	}
}

// hitIDsAt yields the IDs of hits at one distance, and reports whether more are wanted.
func (r *reader) hitIDsAt(hits []hit, yield func(hitID, error) bool) (more bool, err error) {
	var h documentHeap
	for i := range hits {
		ids, err := r.documentIDs(&hits[i])
		if err != nil {
			return false, err
		}
		if id, err := ids.next(); err != nil {
			return false, err
		} else if id != 0 {
			h = append(h, documentsOfHit{hitID{id, &hits[i]}, ids})
		}
	}
	heap.Init(&h)
	for len(h) > 0 {
		if !yield(h[0].hitID, nil) {
			return false, nil
		}
		id, err := h[0].ids.next()
		switch {
		case err != nil:
			return false, err
		case id == 0:
			heap.Pop(&h)
		default:
			h[0].id = id
			heap.Fix(&h, 0)
		}
	}
	return true, nil
}

// documentHeap orders the documents of hits at one distance by their next ID.
type documentHeap []documentsOfHit

type documentsOfHit struct {
	hitID
	ids *documentIDs
}

func (h documentHeap) Len() int           { return len(h) }
func (h documentHeap) Less(i, j int) bool { return h[i].id < h[j].id }
func (h documentHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *documentHeap) Push(d any)        { *h = append(*h, d.(documentsOfHit)) }
func (h *documentHeap) Pop() any {
	last := len(*h) - 1
	d := (*h)[last]
	*h = (*h)[:last]
	return d
}
