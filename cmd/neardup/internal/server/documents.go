package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path/filepath"
	"strconv"
	"time"

	"github.com/neardup/neardup/cmd/neardup/internal/compare"
	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/match"
	"github.com/neardup/neardup/internal/plan"
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
	return match.For(s.index.Stats().Analyzer, s.index.Plan().MaxDistance)
}

// stats answers GET /v1/stats.
func (s *Server) stats(a *answer, r *http.Request) error {
	stats := s.index.Stats()
	if stats.Tables == 0 {
		return index.ErrClosed
	}
	return a.json(stats)
}

// unhurried is for calls that may take long: they end when they are done, or the caller goes away.
func (a *answer) unhurried() {
	conn := http.NewResponseController(a.ResponseWriter)
	conn.SetReadDeadline(time.Time{}) // at its end net/http would end the context of the call
	conn.SetWriteDeadline(time.Time{})
}

// Checkpointed is the answer to POST /v1/checkpoint.
type Checkpointed struct {
	Checkpoint string `json:"checkpoint"`
	Documents  uint64 `json:"documents"`
	DiskBytes  uint64 `json:"diskBytes"` // of the index; linked files are counted
}

// checkpoint answers POST /v1/checkpoint?name=: it makes a folder of that name in that of all checkpoints.
func (s *Server) checkpoint(a *answer, r *http.Request) error {
	if s.opts.Checkpoints == "" {
		return &callError{wire.Forbidden, http.StatusForbidden, "serve was started without -checkpoints DIR, the folder to make them in"}
	}
	name, err := required(r, "name")
	if err != nil {
		return err
	}
	if !validName(name) {
		return badCall("name is %.80q, want letters, digits, dots, dashes and underscores, 100 at most, and not a dot first", name)
	}
	a.unhurried()
	dir := filepath.Join(s.opts.Checkpoints, name)
	err = s.index.Checkpoint(r.Context(), dir)
	if errors.Is(err, fs.ErrExist) {
		return &callError{wire.Exists, http.StatusConflict, err.Error()}
	}
	if err != nil {
		return err
	}
	stats := s.index.Stats()
	return a.json(Checkpointed{dir, stats.Documents, stats.DiskBytes})
}

func validName(name string) bool {
	for i, c := range name {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '.' && i > 0:
		default:
			return false
		}
	}
	return name != "" && len(name) <= 100
}

// compact answers POST /v1/compact, once the index is packed. With ?k= it is under the best plan for that k and its
// documents from then on. Calls go on meanwhile; one compaction goes on at a time, and a caller who goes away, or SIGTERM, ends it.
func (s *Server) compact(a *answer, r *http.Request) error {
	parameters, err := parametersOf(r, "k")
	if err != nil {
		return err
	}
	o := compaction.Options{MemoryBytes: s.opts.CompactionBytes}
	if parameters.Has("k") {
		if o.Plan, err = s.planWithin(parameters.Get("k")); err != nil {
			return err
		}
	}
	ctx, end, err := s.packing(r.Context())
	if err != nil {
		return err
	}
	defer end()
	a.unhurried()
	report, err := compaction.Compact(ctx, s.index.Index, o)
	if err != nil {
		return s.packingError(err)
	}
	return a.json(report)
}

// planWithin returns the best plan for k and the documents that there are.
func (s *Server) planWithin(text string) (*plan.Plan, error) {
	k, err := strconv.Atoi(text)
	if err != nil {
		return nil, badCall("k is %.40q, want a number", text)
	}
	choice, err := plan.Choose(k, int64(max(s.index.Stats().Documents, 1)), plan.Limits{})
	if err != nil {
		return nil, badCall("k: %v", err)
	}
	return choice.Plan, nil
}

// packing begins a call that packs the index, of which one goes on at a time. SIGTERM ends it. end must follow.
func (s *Server) packing(of context.Context) (ctx context.Context, end func(), err error) {
	if !s.compacting.CompareAndSwap(false, true) {
		s.metrics.refused.WithLabelValues("compactions").Inc()
		return nil, nil, fmt.Errorf("%w: another compaction is running", wire.ErrBusy)
	}
	ctx, cancel := context.WithCancel(of)
	goOn := context.AfterFunc(s.stopping, cancel)
	return ctx, func() {
		goOn()
		cancel()
		s.compacting.Store(false)
	}, nil
}

func (s *Server) packingError(err error) error {
	if s.isStopping() && errors.Is(err, context.Canceled) {
		return errStopping
	}
	return err
}
