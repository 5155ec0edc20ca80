package server

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"

	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/index"
)

// Loaded is the answer to POST /v1/load.
type Loaded struct {
	Documents    uint64  `json:"documents"`
	Loaded       uint64  `json:"loaded"`
	Replaced     uint64  `json:"replaced"`
	Skipped      uint64  `json:"skipped"`
	FirstSkipped string  `json:"firstSkipped,omitempty"`
	Seconds      float64 `json:"seconds"`
}

// load answers POST /v1/load, once the documents of all lines are stored, in one step. Nothing of a body that breaks off is.
func (s *Server) load(a *answer, r *http.Request) error {
	if _, err := parametersOf(r); err != nil {
		return err
	}
	// A read that fails ends the context of the call as well, and is what there is to say.
	ctx, end, err := s.packing(context.WithoutCancel(r.Context()))
	if err != nil {
		return err
	}
	defer end()
	a.unhurried() // each line has its time
	var done Loaded
	gone, leave := context.WithCancel(ctx)
	defer leave()
	docs := func(yield func(index.Document, error) bool) {
		if s.loadLines(a, r, &done, yield) {
			context.AfterFunc(r.Context(), leave) // whose body has ended can only go away
		}
	}
	report, err := s.index.Load(gone, docs, compaction.LoadOptions{KeepAdded: true, MemoryBytes: s.opts.CompactionBytes})
	if errors.Is(err, compaction.ErrDone) { // the documents are there
		s.noteError(err)
		log.Print(err)
		err = nil
	}
	if err != nil {
		return s.packingError(err)
	}
	a.documents += int(report.Loaded)
	done.Documents, done.Loaded, done.Replaced, done.Seconds = report.Documents, report.Loaded, report.Replaced, report.Seconds
	return a.json(done)
}

// loadLines yields the documents of the lines of a call, and counts those that are skipped. whole is false where it ended before.
func (s *Server) loadLines(a *answer, r *http.Request, done *Loaded, yield func(index.Document, error) bool) (whole bool) {
	line, taken := 0, true
	err := s.forEachStreamed(a, r, true, func(items []*item) error {
		for _, i := range items {
			if i.reason == "" && i.added.Err != nil {
				i.reason = i.added.Err.Error()
			}
			if line++; i.reason != "" {
				if done.Skipped++; done.Skipped == 1 {
					done.FirstSkipped = fmt.Sprintf("line %d, key %.80q: %s", line, i.key, i.reason)
				}
				continue
			}
			i.document.Added = i.added.Time
			if taken = yield(i.document, nil); !taken {
				return errUnread
			}
		}
		return nil
	})
	if err != nil && taken {
		yield(index.Document{}, fmt.Errorf("after line %d: %w", line, err))
	}
	return err == nil
}
