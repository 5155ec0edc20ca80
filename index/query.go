package index

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/internal/store"
)

// QueryOption narrows a query.
type QueryOption func(*query)

type query struct {
	k     int
	limit int // 0: none
	wanted
	shingles []fingerprint.Fingerprint // of the queries of a batch; nil: none
	lengths  []int                     // the same
	method   BatchMethod               // of a batch; "": by cost
}

// MaxDistance asks for matches within k bits instead of the index's MaxDistance.
// A larger k than that is ErrDistance.
func MaxDistance(k int) QueryOption { return func(q *query) { q.k = k } }

// Limit asks for the n nearest matches at most. 0: no limit.
func Limit(n int) QueryOption { return func(q *query) { q.limit = n } }

// InScope asks for the documents of a scope. Default: those of the empty scope.
func InScope(scope string) QueryOption { return func(q *query) { q.scope = scope } }

// Shingle asks for documents that match as CheckAndAdd has it: those that have a
// Shingle must have it as near to this one as Options.MaxShingleDistance says. Default,
// and with 0: the Shingles are not looked at.
func Shingle(shingle fingerprint.Fingerprint) QueryOption {
	return func(q *query) { q.signature.Shingle = shingle }
}

// Shingles is Shingle for QueryBatch: one for each fingerprint, in their order.
func Shingles(shingles []fingerprint.Fingerprint) QueryOption {
	return func(q *query) { q.shingles = shingles }
}

// Tokens asks for documents that match as CheckAndAdd has it: those whose length is known
// must have one that differs from this one no more than by Options.MaxLengthRatio.
// Default, and with 0: the lengths are not looked at.
func Tokens(tokens int) QueryOption { return func(q *query) { q.signature.Tokens = tokens } }

// TokenCounts is Tokens for QueryBatch: one for each fingerprint, in their order.
func TokenCounts(tokens []int) QueryOption { return func(q *query) { q.lengths = tokens } }

// MaxShingleDistance takes the place of Options.MaxShingleDistance for a query with
// Shingle or Shingles. 0: that of the index. Below 0: they are not looked at.
func MaxShingleDistance(limit int) QueryOption {
	return func(q *query) { q.rule = q.rule.With(limit, 0) }
}

// MaxLengthRatio takes the place of Options.MaxLengthRatio for a query with Tokens or
// TokenCounts. 0: that of the index. Below 0: lengths are not looked at. From there to 1:
// ErrRatio.
func MaxLengthRatio(ratio float64) QueryOption {
	return func(q *query) { q.rule = q.rule.With(0, ratio) }
}

func (x *Index) query(opts []QueryOption) (query, error) {
	q := query{k: x.plan.MaxDistance, wanted: wanted{rule: x.rule()}}
	for _, o := range opts {
		o(&q)
	}
	if q.k < 0 || q.k > x.plan.MaxDistance {
		return query{}, fmt.Errorf("%w: k = %d is not in 0..%d", ErrDistance, q.k, x.plan.MaxDistance)
	}
	if q.method != "" && !slices.Contains(batchMethods, q.method) {
		return query{}, fmt.Errorf("there is no way %q to answer many queries; there are %q", q.method, batchMethods)
	}
	if q.limit < 0 {
		return query{}, fmt.Errorf("query limit %d is negative", q.limit)
	}
	return q, q.rule.Check()
}

// Query returns the stored documents within the distance of fp, by (Distance, ID).
// It costs one range scan a probe of the plan, one read a distinct matching
// fingerprint and two a match. Errors: ErrDistance, ErrClosed, ErrCorrupt, ctx's.
func (x *Index) Query(ctx context.Context, fp fingerprint.Fingerprint, opts ...QueryOption) (matches []Match, err error) {
	if err := x.begin(ctx); err != nil {
		return nil, err
	}
	defer x.end()
	q, err := x.query(opts)
	if err == nil && (q.shingles != nil || q.lengths != nil) {
		err = errors.New("the options Shingles and TokenCounts are for QueryBatch; use Shingle and Tokens")
	}
	if err != nil {
		return nil, err
	}
	err = x.withReader(func(r *reader) error {
		matches, err = r.matches(ctx, fp, q)
		return err
	})
	return matches, err
}

func (r *reader) matches(ctx context.Context, fp fingerprint.Fingerprint, q query) ([]Match, error) {
	hits, err := r.search(ctx, store.Stored(uint64(fp), q.scope), q.k)
	if err != nil {
		return nil, err
	}
	return r.matchesOf(ctx, hits, &q)
}

// matchesOf returns the documents of hits, which are sorted, that a query asks for.
func (r *reader) matchesOf(ctx context.Context, hits []hit, q *query) ([]Match, error) {
	var matches []Match
	for found, err := range r.documents(hits) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return nil, err
		}
		d, wanted, err := r.matching(found, &q.wanted)
		if err != nil {
			return nil, err
		}
		if !wanted {
			continue
		}
		matches = append(matches, Match{d, found.hit.distance})
		if len(matches) == q.limit {
			break
		}
	}
	return matches, nil
}

// Get returns the document that has a key.
func (x *Index) Get(ctx context.Context, key string) (d Document, found bool, err error) {
	if err := x.begin(ctx); err != nil {
		return Document{}, false, err
	}
	defer x.end()
	if key == "" {
		return Document{}, false, nil
	}
	err = x.withView(func(v *store.View) error {
		ids, err := v.KeyIDs(store.KeyHash(key))
		if err != nil {
			return err
		}
		if d, found, err = findKey(v, key, ids); err == nil && found {
			d.Added, err = v.Added(d.ID)
		}
		return err
	})
	return d, found, err
}
