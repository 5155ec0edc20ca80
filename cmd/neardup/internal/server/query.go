package server

import (
	"context"
	"net/http"

	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/wire"
)

// query answers POST /v1/query, which has the shapes of check and stores nothing.
func (s *Server) query(a *answer, r *http.Request) error {
	parameters, err := parametersOf(r, "key", "scope", "kind")
	if err != nil {
		return err
	}
	if parameters == nil {
		return s.forEachWindow(a, r, false, func(items []*item) error { return s.queryItems(a, r, items) })
	}
	c := &claim{server: s}
	defer c.release()
	i, err := s.readPage(r, parameters, c)
	if err != nil {
		return err
	}
	a.documents++
	if i.reason != "" {
		return a.json(skippedQuery(i))
	}
	matches, err := s.index.Query(r.Context(), queryOf(i))
	if err != nil {
		return err
	}
	return a.json(found(i, matches))
}

func skippedQuery(i *item) wire.Found {
	f := wire.FoundOf(i.key, nil, nil)
	f.Reason = i.reason
	return f
}

// queryItems answers lines.
func (s *Server) queryItems(a *answer, r *http.Request, items []*item) error {
	var queries []index.Query
	for _, i := range items {
		if i.reason == "" {
			queries = append(queries, queryOf(i))
		}
	}
	out, rest := a.lines(), items
	skip := func() error {
		for len(rest) > 0 && rest[0].reason != "" {
			if err := out.add(new(skippedQuery(rest[0]))); err != nil {
				return err
			}
			a.documents++
			rest = rest[1:]
		}
		return nil
	}
	var failed error
	for answered, err := range s.index.QueryBatch(context.WithoutCancel(r.Context()), queries) {
		if failed = err; failed == nil {
			failed = skip()
		}
		if failed == nil {
			failed = out.add(new(found(rest[0], answered.Matches)))
		}
		if failed != nil {
			break
		}
		a.documents++
		rest = rest[1:]
		if out.out.Len() > windowBytes {
			if failed = out.send(); failed != nil {
				break
			}
		}
	}
	if failed == nil {
		failed = skip()
	}
	if out.out.Len() == 0 { // it failed
		return failed
	}
	if unread := out.flush(); unread != nil {
		return unread
	}
	return failed
}

// maxMatches is how many a document may have in an answer.
const maxMatches = 10_000

func found(i *item, matches []index.Match) wire.Found {
	more := len(matches) > maxMatches
	f := wire.FoundOf(i.key, &i.document.Fingerprint, matches[:min(len(matches), maxMatches)])
	f.More = more
	return f
}

func queryOf(i *item) index.Query {
	q := index.Query{Signature: i.document.Signature(), Scope: i.document.Scope, Limit: i.limit}
	if q.Limit == 0 || q.Limit > maxMatches {
		q.Limit = maxMatches + 1
	}
	if k := i.maxDistance; k != nil {
		if q.MaxDistance = *k; *k == 0 {
			q.MaxDistance = index.Exact
		}
	}
	return q
}
