package server

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"net/http"
	"net/url"
	"runtime/debug"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/neardup/neardup"
	"github.com/neardup/neardup/client/api"
	"github.com/neardup/neardup/cmd/neardup/internal/compare"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/check"
	"github.com/neardup/neardup/internal/wire"
)

// check answers POST /v1/check. If the index fails, the documents before the failure are answered.
func (s *Server) check(a *answer, r *http.Request, values url.Values) error {
	var verdicts []neardup.Verdict
	var failed error
	var checked api.Checked
	return s.eachWindow(a, r, values, &window{store: func(w *window) {
		verdicts, failed = check.Batch(context.Background(), w.docs, w.reasons, s.checkDocuments)
	}, answer: func(w *window, n int) (any, error) {
		if n >= len(verdicts) {
			return nil, failed
		}
		s.metrics.verdicts[verdicts[n].Status].Add(1)
		checked = wire.Checked(w.items[n].key, &w.docs[n].Fingerprint, &verdicts[n])
		return &checked, nil
	}})
}

// checkDocuments ends the process if the index panics: net/http would recover, with locks held.
func (s *Server) checkDocuments(
	ctx context.Context, docs []index.Document,
) ([]neardup.Verdict, error) {
	defer func() {
		if cause := recover(); cause != nil {
			log.Fatalf("panic: %v\n\n%s", cause, debug.Stack())
		}
	}()
	return s.index.CheckDocuments(ctx, docs)
}

const (
	maxMatches = 10_000 // matches in the answer to one query
	maxListed  = 1000   // documents in a part of the list
)

// query answers POST /v1/query.
func (s *Server) query(a *answer, r *http.Request, values url.Values) error {
	answer := func(w *window, n int) (any, error) {
		i, d := &w.items[n], &w.docs[n]
		found := api.Found{Reason: w.reasons[n], Matches: []api.Stored{}}
		found.Key, found.KeyBytes = wire.Split(i.key)
		if found.Reason != "" {
			return &found, nil
		}
		q := index.Query{Signature: d.Signature(), Scope: d.Scope, Limit: i.limit}
		if q.Limit == 0 || q.Limit > maxMatches {
			q.Limit = maxMatches + 1
		}
		if k := i.maxDistance; k != nil {
			if *k < 0 { // index.Exact is negative
				return nil, fmt.Errorf("%w: maxDistance is %d, want 0 or more",
					index.ErrDistance, *k)
			}
			q.MaxDistance = cmp.Or(*k, index.Exact)
		}
		s.queries.Acquire(context.Background(), 1) // each has memory for its matches
		defer s.queries.Release(1)
		matches, err := s.index.Query(r.Context(), q)
		found.Fingerprint, found.More = &d.Fingerprint, len(matches) > maxMatches
		for n := range matches[:min(len(matches), maxMatches)] {
			found.Matches = append(found.Matches, wire.Stored(&matches[n]))
		}
		return &found, err
	}
	return s.eachWindow(a, r, values, &window{query: true, answer: answer})
}

// explain answers POST /v1/explain.
func (s *Server) explain(a *answer, r *http.Request, values url.Values) error {
	return s.eachWindow(a, r, values, &window{answer: func(w *window, n int) (any, error) {
		return compare.Explain(r.Context(), s.index, w.items[n].key, &w.docs[n], w.reasons[n],
			*s.opts.Rule)
	}})
}

// explainKey answers GET /v1/explain.
func (s *Server) explainKey(a *answer, r *http.Request, values url.Values) error {
	d, err := s.stored(r, values.Get("key"))
	if err != nil {
		return err
	}
	return a.json(compare.Explain(r.Context(), s.index, d.Key, &d, "", *s.opts.Rule))
}

// stored returns the document that has a key.
func (s *Server) stored(r *http.Request, key string) (index.Document, error) {
	d, found, err := s.index.Get(r.Context(), key)
	if err == nil && !found {
		err = wire.Failuref(wire.NotFound, http.StatusNotFound,
			"no document has the key %.80q: duplicates and skipped pages are not stored; "+
				"to compare a page with the stored ones, send it to POST /v1/explain", key)
	}
	return d, err
}

// get answers GET /v1/document.
func (s *Server) get(a *answer, r *http.Request, values url.Values) error {
	d, err := s.stored(r, values.Get("key"))
	return a.json(wire.Stored(&index.Match{Document: d}), err)
}

// list answers GET /v1/documents.
func (s *Server) list(a *answer, r *http.Request, values url.Values) error {
	after, err := strconv.ParseUint(cmp.Or(values.Get("after"), "0"), 10, 64)
	if err != nil {
		return badCall("after is %.40q, want the value of next in the previous part",
			values.Get("after"))
	}
	s.queries.Acquire(context.Background(), 1)
	defer s.queries.Release(1)
	part := api.List{Documents: []api.Stored{}}
	for d, err := range s.index.DocumentsAfter(r.Context(), after) {
		if err != nil {
			return err
		}
		if len(part.Documents) == maxListed {
			part.Next = strconv.FormatUint(part.Documents[maxListed-1].ID, 10)
			break
		}
		part.Documents = append(part.Documents, wire.Stored(&index.Match{Document: d}))
	}
	a.documents = len(part.Documents)
	return a.json(part, nil)
}

// delete answers POST /v1/documents/delete.
func (s *Server) delete(a *answer, r *http.Request, _ url.Values) error {
	body, err := a.readBody(r)
	if err != nil {
		return err
	}
	var d api.Deletion
	if err := json.Unmarshal(body, &d, json.RejectUnknownMembers(true)); err != nil {
		return badCall("the body is not an object with keys, keyBytes or ids: %v", err)
	}
	for _, key := range d.KeyBytes {
		d.Keys = append(d.Keys, string(key))
	}
	n, err := s.index.Delete(r.Context(), d.Keys...)
	if err == nil {
		a.documents, err = s.index.DeleteIDs(r.Context(), d.IDs...)
	}
	a.documents += n
	if err != nil {
		return fmt.Errorf("%d documents were deleted before this error; repeat the request: %w",
			a.documents, err)
	}
	return a.json(api.Deleted{Deleted: a.documents}, nil)
}
