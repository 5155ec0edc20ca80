package server

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"github.com/neardup/neardup/cmd/neardup/internal/compare"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/match"
	"github.com/neardup/neardup/internal/wire"
)

// required returns the value of a parameter of the URL, beside which there may be others.
func required(r *http.Request, name string, others ...string) (string, error) {
	parameters, err := parametersOf(r, append(others, name)...)
	if err == nil && !parameters.Has(name) {
		err = badCall("the parameter %s is missing", name)
	}
	return parameters.Get(name), err
}

// named returns the document whose key a parameter is.
func (s *Server) named(r *http.Request, parameter string, others ...string) (d index.Document, err error) {
	key, err := required(r, parameter, others...)
	if err != nil {
		return d, err
	}
	d, found, err := s.index.Get(r.Context(), key)
	if err == nil && !found {
		err = &callError{wire.NotFound, http.StatusNotFound, fmt.Sprintf("no document has the key %.80q", key)}
	}
	return d, err
}

// get answers GET /v1/documents.
func (s *Server) get(a *answer, r *http.Request) error {
	d, err := s.named(r, "key")
	if err != nil {
		return err
	}
	a.documents++
	return a.json(wire.StoredOf(&index.Match{Document: d}))
}

// Deleted is the answer to DELETE /v1/documents.
type Deleted struct {
	Deleted int `json:"deleted"`
}

// delete answers DELETE /v1/documents. That there is no such document is no error: it may be tried again.
func (s *Server) delete(a *answer, r *http.Request) error {
	key, err := required(r, "key")
	if err != nil {
		return err
	}
	n, err := s.index.Delete(r.Context(), key)
	if err != nil {
		return err
	}
	a.documents += n
	return a.json(Deleted{n})
}

// pairs answers GET /v1/pairs: the documents that match one that is stored, nearest first.
func (s *Server) pairs(a *answer, r *http.Request) error {
	d, err := s.named(r, "of", "limit")
	if err != nil {
		return err
	}
	limit := maxMatches
	if text := r.URL.Query().Get("limit"); text != "" {
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > maxMatches {
			return badCall("limit is %.40q, want 1 to %d", text, maxMatches)
		}
	}
	text, err := s.pairsOf(r.Context(), &d, limit)
	if err != nil {
		return err
	}
	taken := &claim{server: s}
	defer taken.release()
	if err := taken.takeAnswer(len(text)); err != nil {
		return err
	}
	a.documents++
	return a.object(text)
}

// pairsOf returns the line of the documents that match d.
func (s *Server) pairsOf(ctx context.Context, d *index.Document, limit int) ([]byte, error) {
	s.queries.Acquire(context.Background(), 1)
	defer s.queries.Release(1)
	matches, err := s.index.Query(ctx, index.Query{Signature: d.Signature(), Scope: d.Scope, Limit: limit + 2})
	if err != nil {
		return nil, err
	}
	others := make([]index.Match, 0, len(matches))
	for _, m := range matches {
		if m.ID != d.ID {
			others = append(others, m)
		}
	}
	found := wire.FoundOf(d.Key, &d.Fingerprint, others[:min(limit, len(others))])
	found.More = len(others) > limit
	return wire.Encode(&found)
}

// compare answers GET /v1/compare.
func (s *Server) compare(a *answer, r *http.Request) error {
	first, err := s.named(r, "a", "b")
	if err != nil {
		return err
	}
	second, err := s.named(r, "b", "a")
	if err != nil {
		return err
	}
	a.documents += 2
	return a.json(compare.Documents(compare.Of(&first), compare.Of(&second), s.rule(), 0))
}

func (s *Server) rule() match.Rule {
	if s.opts.Rule != nil {
		return s.opts.Rule()
	}
	return match.Default(s.index.Plan().MaxDistance)
}

// stats answers GET /v1/stats.
func (s *Server) stats(a *answer, r *http.Request) error {
	stats := s.index.Stats()
	if stats.Tables == 0 {
		return index.ErrClosed
	}
	return a.json(stats)
}
