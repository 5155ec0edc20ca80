package server

import (
	"context"
	"fmt"
	"iter"
	"net/http"

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
		if i.reason == "" {
			q, err := queryOf(i)
			if err != nil {
				return err
			}
			queries = append(queries, q)
		}
	}
	next, stop := iter.Pull2(s.index.QueryBatch(context.WithoutCancel(r.Context()), queries))
	defer stop()
	out := a.lines()
	taken := &claim{server: s}
	defer taken.release()
	for _, i := range items {
		before := out.text.Len()
		if err := s.addFound(out, i, next, taken); err != nil {
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

// addFound adds the answer to an item, that of next unless it is skipped, and claims what it takes. Few are made at once: each has room for its matches.
func (s *Server) addFound(out *lineWriter, i *item, next func() (index.Answer, error, bool), taken *claim) error {
	line := wire.FoundOf(i.key, nil, nil)
	if line.Reason = i.reason; i.reason == "" {
		s.queries.Acquire(context.Background(), 1)
		defer s.queries.Release(1)
		answered, err, _ := next()
		if err != nil {
			return err
		}
		line = found(i, answered.Matches)
	}
	if err := out.add(&line); err != nil {
		return err
	}
	return taken.takeAnswer(out.text.Len())
}

// maxMatches is how many a document may have in an answer.
const maxMatches = 10_000

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
