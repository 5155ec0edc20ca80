package server

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"slices"

	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/wire"
)

// query answers POST /v1/query, which has the shapes of check and stores nothing.
func (s *Server) query(a *answer, r *http.Request) error {
	return s.forEachDocument(a, r, false, func(items []*item) error { return s.queryItems(a, r, items) })
}

// queryItems asks for documents and answers them. Where it fails part of the way, those before are answered.
func (s *Server) queryItems(a *answer, r *http.Request, items []*item) error {
	var queries []index.Query
	for _, i := range items {
		if i.isCompared() {
			q, err := queryOf(i)
			if err != nil {
				return err
			}
			queries = append(queries, q)
		}
	}
	ctx := context.WithoutCancel(r.Context())
	first := slices.Clone(queries)
	for i := range first {
		first[i].Limit = min(first[i].Limit, fewMatches+1)
	}
	next, stop := iter.Pull2(s.index.QueryBatch(ctx, first))
	defer stop()
	matches := func() ([]index.Match, error) {
		answered, err, _ := next()
		if err == nil && len(answered.Matches) > fewMatches {
			return s.index.Query(ctx, queries[answered.Query])
		}
		return answered.Matches, err
	}
	out := a.lines()
	taken := &claim{server: s}
	defer taken.release()
	for _, i := range items {
		before := out.text.Len()
		if err := s.addFound(out, i, matches, taken); err != nil {
			out.text.Truncate(before)
			return out.end(err)
		}
		if out.text.Len() > windowBytes {
			if err := out.send(); err != nil {
				return err
			}
			taken.release()
		}
	}
	return out.end(nil)
}

// addFound adds the answer to an item, with matches unless it is skipped, and claims what it takes. Few are made at once: each has room for its matches.
func (s *Server) addFound(out *lineWriter, i *item, matches func() ([]index.Match, error), taken *claim) error {
	if i.malformed != nil {
		return out.add(i.malformed)
	}
	line := wire.FoundOf(i.key, nil, nil)
	if line.Reason = i.reason; i.reason == "" {
		s.queries.Acquire(context.Background(), 1)
		defer s.queries.Release(1)
		near, err := matches()
		if err != nil {
			return err
		}
		line = found(i, near)
	}
	if err := out.add(&line); err != nil {
		return err
	}
	return taken.takeAnswer(out.text.Len())
}

const (
	// maxMatches is how many a document may have in an answer.
	maxMatches = 10_000

	// fewMatches is how many it may have in a batch, which the index answers ahead; more are asked for alone.
	fewMatches = 64
)

func found(i *item, matches []index.Match) wire.Found {
	f := wire.FoundOf(i.key, &i.document.Fingerprint, matches[:min(len(matches), maxMatches)])
	f.More = len(matches) > maxMatches
	return f
}

func queryOf(i *item) (index.Query, error) {
	q := index.Query{Signature: i.document.Signature(), Scope: i.document.Scope, Limit: i.limit}
	if q.Limit == 0 || q.Limit > maxMatches {
		q.Limit = maxMatches + 1
	}
	if k := i.maxDistance; k != nil {
		if *k < 0 { // index.Exact is one of them
			return q, fmt.Errorf("%w: maxDistance is %d, want 0 or more", index.ErrDistance, *k)
		}
		if q.MaxDistance = *k; *k == 0 {
			q.MaxDistance = index.Exact
		}
	}
	return q, nil
}
