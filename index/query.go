package index

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"iter"

	"github.com/neardup/neardup/fingerprint"
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
	k, err := q.Within(r.x.plan.MaxDistance)
	if err != nil {
		return nil, err
	}
	return r.query(ctx, &q, k)
}

// query returns the matches of q within k bits.
func (r *reader) query(ctx context.Context, q *Query, k int) (matches []Match, err error) {
	hits, err := r.search(ctx, storedOfQuery(q), k)
	if err != nil || len(hits) == 0 {
		return nil, err
	}
	return r.matches(ctx, q, hits)
}

// matches returns the documents of hits that match q. The hits must be sorted by distance.
func (r *reader) matches(ctx context.Context, q *Query, hits []hit) (matches []Match, err error) {
	rule := r.x.rule
	for m, err := range r.candidates(ctx, hits, q.Scope, func(id uint64, distance int) bool {
		return r.rulesOut(rule, id, distance, q.Signature)
	}) {
		if err != nil {
			return nil, err
		}
		if !rule.Allows(m.Distance, m.Signature(), q.Signature) {
			continue
		}
		if matches = append(matches, m); len(matches) == q.Limit {
			break
		}
	}
	return matches, nil
}

// rulesOut reports whether the cached Shingles of a document show that it does not match.
func (r *reader) rulesOut(rule match.Rule, id uint64, distance int, s fingerprint.Signature) bool {
	shingles, known := r.x.shingles.get(id)
	return known && rule.RulesOut(distance, shingles, s)
}

// candidates yields the documents of hits in a scope, by distance, then ID. The hits must be sorted
// by distance. It does not read the records of the documents for which skip returns true.
func (r *reader) candidates(
	ctx context.Context, hits []hit, scope string, skip func(id uint64, distance int) bool,
) iter.Seq2[Match, error] {
	return func(yield func(Match, error) bool) {
		for ids, err := range r.hitIDs(hits) {
			if err := cmp.Or(err, ctx.Err()); err != nil {
				yield(Match{}, err)
				return
			}
			distance := int(ids.hit.distance)
			if skip(ids.id, distance) {
				continue
			}
			d, found, err := r.document(ids.id, ids.hit.stored)
			if err == nil && (!found || d.Scope != scope) {
				continue
			}
			if !yield(Match{Document: d, Distance: distance}, err) || err != nil {
				return
			}
		}
	}
}

// hitIDs yields each ID of the hits, by distance, then ID. It reads the IDs of a hit when the loop
// reaches its distance. The documents may have been removed.
func (r *reader) hitIDs(hits []hit) iter.Seq2[*documentIDs, error] {
	return func(yield func(*documentIDs, error) bool) {
		for next := 0; next < len(hits); {
			var h idHeap // of the hits at one distance
			for n := next; next < len(hits) && hits[next].distance == hits[n].distance; next++ {
				ids, err := r.documentIDs(&hits[next])
				if err != nil {
					yield(nil, err)
					return
				}
				if ids.id != 0 {
					h = append(h, ids)
				}
			}
			heap.Init(&h)
			for len(h) > 0 {
				if !yield(h[0], nil) {
					return
				}
				if err := h[0].next(); err != nil {
					yield(nil, err)
					return
				}
				if h[0].id != 0 {
					heap.Fix(&h, 0)
				} else {
					heap.Pop(&h)
				}
			}
		}
	}
}

// idHeap orders hits by their current ID.
type idHeap []*documentIDs

func (h idHeap) Len() int           { return len(h) }
func (h idHeap) Less(i, j int) bool { return h[i].id < h[j].id }
func (h idHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *idHeap) Push(ids any)      { *h = append(*h, ids.(*documentIDs)) }
func (h *idHeap) Pop() any {
	last := len(*h) - 1
	ids := (*h)[last]
	*h = (*h)[:last]
	return ids
}
