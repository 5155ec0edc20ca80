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
	for _, i := range items {
		line := wire.FoundOf(i.key, nil, nil)
		if line.Reason = i.reason; i.reason == "" {
			answered, err, _ := next()
			if err != nil {
				return out.end(err)
			}
			line = found(i, answered.Matches)
		}
		if err := out.add(&line); err != nil {
			return out.end(err)
		}
		if out.text.Len() > windowBytes {
			if err := out.send(); err != nil {
				return err
			}
		}
	}
	return out.end(nil)
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
