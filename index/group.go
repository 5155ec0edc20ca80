package index

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/neardup/neardup/store"
)

// CheckAndAdd stores a document unless another stored document of its scope matches: within the
// MaxDistance of the index and, if both have a Shingle, with Shingles within
// Options.MaxShingleDistance. A document whose Key is known is a recrawl. It is compared with the
// other documents only, and it replaces the earlier version, or, if it has become a duplicate of
// another document, the earlier version is removed. A recrawl with the same Fingerprint, Shingle and
// Scope keeps its ID. With Options.KeepDuplicates a duplicate is stored as well.
//
// Concurrent calls share searches and commits. The order of concurrent documents that match each
// other is the order of their commits: exactly one of them is New. A verdict holds when CheckAndAdd
// returns: with Sync, all that it rests on is durable by then. It returns the same errors as Add.
func (x *Index) CheckAndAdd(ctx context.Context, doc Document) (Verdict, error) {
	if err := x.beginWrite(ctx); err != nil {
		return Verdict{}, err
	}
	defer x.end()
	call := &singleCall{ctx: ctx, doc: doc, done: make(chan struct{})}
	if err := x.validate(call.docs()); err != nil {
		return Verdict{}, err
	}
	x.singles.add(call)
	for ended := false; !ended; {
		select {
		case <-call.done:
			ended = true
		case x.turns <- struct{}{}:
			x.singles.decide(x)
		case <-ctx.Done():
			if x.singles.withdraw(call) {
				return Verdict{}, ctx.Err()
			}
			<-call.done
			ended = true
		}
	}
	if call.err != nil {
		return Verdict{}, call.err
	}
	if err := call.last.Wait(); err != nil {
		return Verdict{}, err
	}
	return call.verdict, nil
}

// singleCall is one call of CheckAndAdd.
type singleCall struct {
	ctx     context.Context
	doc     Document
	verdict Verdict
	last    *store.Commit // what the verdict rests on
	err     error
	done    chan struct{} // closed once verdict or err is set
}

func (c *singleCall) docs() []Document { return []Document{c.doc} }

// singleCalls groups concurrent calls of CheckAndAdd into windows. A caller that gets a turn decides
// for all calls that wait at that time.
type singleCalls struct {
	mu      sync.Mutex
	waiting []*singleCall
}

func (s *singleCalls) add(c *singleCall) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = append(s.waiting, c)
}

// withdraw removes a call that still waits.
func (s *singleCalls) withdraw(c *singleCall) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.waiting, c)
	if i < 0 {
		return false
	}
	s.waiting = slices.Delete(s.waiting, i, i+1)
	return true
}

// take returns the calls that have waited longest and fit into one window, and their documents.
func (s *singleCalls) take() (calls []*singleCall, docs []Document) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.waiting[:min(len(s.waiting), windowLimit)] {
		docs = append(docs, c.doc)
	}
	n := windowLen(docs)
	calls = slices.Clone(s.waiting[:n])
	s.waiting = slices.Delete(s.waiting, 0, n)
	return calls, docs[:n]
}

// errPanicked is the error of the calls that share a window with a call that panicked, as Options.Now
// may do.
var errPanicked = errors.New("not stored: another call that shared the commit panicked")

// decide decides one window of waiting calls, and gives the turn of its caller back. If several calls
// share the window, the end of one context does not fail the others.
func (s *singleCalls) decide(x *Index) {
	calls, docs := s.take()
	var verdicts []Verdict
	var last *store.Commit
	err := errPanicked
	defer func() {
		<-x.turns
		for i, c := range calls {
			if i < len(verdicts) {
				c.verdict, c.last = verdicts[i], last
			} else {
				c.err = err
			}
			close(c.done)
		}
	}()
	if len(calls) == 0 {
		return
	}
	ctx := calls[0].ctx
	if len(calls) > 1 {
		ctx = context.WithoutCancel(ctx)
	}
	verdicts, last, err = x.decideWindow(ctx, docs)
}
