package redis

import (
	"cmp"
	"context"
	"slices"

	"github.com/neardup/neardup/index"
)

// Query returns the stored documents that match q, ordered by Distance and ID. The result may
// include documents that a failover at this moment would still lose. Errors: index.ErrDistance,
// ErrUnavailable, and the error of ctx.
func (x *Index) Query(ctx context.Context, q index.Query) ([]index.Match, error) {
	answers, err := x.QueryBatch(ctx, []index.Query{q})
	if err != nil {
		return nil, err
	}
	return answers[0], nil
}

// QueryBatch answers queries in their order. It needs two round trips per 1,024 queries.
func (x *Index) QueryBatch(
	ctx context.Context, queries []index.Query,
) (answers [][]index.Match, err error) {
	if err := x.begin(ctx); err != nil {
		return nil, err
	}
	defer x.end()
	for part := range slices.Chunk(queries, queryChunk) {
		found, err := x.query(ctx, part)
		if err != nil {
			return nil, err
		}
		answers = append(answers, found...)
	}
	return answers, nil
}

const queryChunk = 1024

func (x *Index) query(ctx context.Context, queries []index.Query) ([][]index.Match, error) {
	places, within := make([]*place, len(queries)), make([]int, len(queries))
	for i := range queries {
		q := &queries[i]
		var err error
		if within[i], err = q.Within(x.plan.MaxDistance); err != nil {
			return nil, err
		}
		p := x.placeOf(&index.Document{Fingerprint: q.Fingerprint, Scope: q.Scope})
		places[i] = &p
	}
	found, near, _, err := x.search(ctx, false, places, nil)
	if err != nil {
		return nil, err
	}
	answers := make([][]index.Match, len(queries))
	for i := range found {
		q := &queries[i]
		for _, n := range found[i] {
			if d := near.record(n.id); d != nil && n.distance <= within[i] && d.Scope == q.Scope &&
				x.rule.Allows(n.distance, d.Signature(), q.Signature) {
				answers[i] = append(answers[i], index.Match{Document: ownCopy(d),
					Distance: n.distance})
			}
		}
		slices.SortFunc(answers[i], func(a, b index.Match) int {
			return cmp.Or(cmp.Compare(a.Distance, b.Distance), cmp.Compare(a.ID, b.ID))
		})
		if q.Limit > 0 {
			answers[i] = answers[i][:min(q.Limit, len(answers[i]))]
		}
	}
	return answers, nil
}

// Get returns the document with the given key.
func (x *Index) Get(ctx context.Context, key string) (d index.Document, found bool, err error) {
	if err := x.begin(ctx); err != nil {
		return index.Document{}, false, err
	}
	defer x.end()
	docs, err := x.byKey(ctx, []string{key})
	if err != nil || len(docs) == 0 {
		return index.Document{}, false, err
	}
	return docs[0], true, nil
}

// byKey returns the documents of keys. It skips keys without a document.
func (x *Index) byKey(ctx context.Context, keys []string) (docs []index.Document, err error) {
	groups := make([]uint32, len(keys))
	for i, key := range keys {
		groups[i] = x.groupOf(&index.Document{Key: key})
	}
	own, err := x.readLogs(ctx, true, groups)
	if err != nil {
		return nil, err
	}
	for i, key := range keys {
		if s := own[groups[i]].byKey[key]; s != nil {
			docs = append(docs, ownCopy(&s.doc))
		}
	}
	return docs, nil
}
