package compaction

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/neardup/neardup/index"
)

// Policy determines when Background compacts an index, and which documents it removes. The zero
// value is the default. No value may be negative.
type Policy struct {
	// Expiry selects the documents that Background removes: see index.Expire. The zero value
	// removes no documents. Off does not affect Expiry.
	index.Expiry

	// A compaction is due if the number of documents added since the last compaction is at least
	// AtLeast, and at least Share times the number of packed fingerprints. It is also due if at
	// least AtLeast documents were removed since then, and at least a quarter of all entries
	// belong to removed documents. 0: Share is 0.25, and AtLeast is one million.
	Share   float64
	AtLeast uint64

	Every       time.Duration // the time between two checks. 0: 10 s
	MemoryBytes int64         // as in Options. 0: 256 MiB

	Off bool // never compact

	// Done, if set, is called after each compaction, by one goroutine. It must not close the
	// Watcher or the index, since Close waits for it. If Close interrupts a compaction, the error
	// is index.ErrClosed or the error of the context.
	Done func(Report, error)

	// Expired, if set, is called by one goroutine after each removal of expired documents. If the
	// removal failed, err is not nil, and the remaining documents are removed later. If Close
	// interrupts a removal, Expired is not called with an error. Expired must not close the Watcher
	// or the index.
	Expired func(documents int, err error)
}

const (
	defaultShare            = .25
	defaultAtLeast          = 1_000_000
	defaultEvery            = 10 * time.Second
	defaultBackgroundMemory = 256 << 20

	// removedShare is the share of entries of removed documents from which a compaction is due.
	removedShare = .25

	// retryAfter is the number of checks that are skipped after a failure.
	retryAfter = 60
)

func (p *Policy) check() error {
	switch {
	case !(p.Share >= 0): // also false for NaN
		return fmt.Errorf(
			"compaction policy: Share is %v, want 0 for the default, or more", p.Share)
	case p.Every < 0:
		return fmt.Errorf(
			"compaction policy: Every is %v, want 0 for the default, or more", p.Every)
	case p.MemoryBytes < 0:
		return fmt.Errorf(
			"compaction policy: MemoryBytes is %d, want 0 for the default, or more", p.MemoryBytes)
	case p.MaxAge < 0:
		return fmt.Errorf(
			"compaction policy: MaxAge is %v, want 0 for no bound, or more", p.MaxAge)
	}
	return nil
}

func (p Policy) withDefaults() Policy {
	p.Share = cmp.Or(p.Share, defaultShare)
	p.AtLeast = cmp.Or(p.AtLeast, defaultAtLeast)
	p.Every = cmp.Or(p.Every, defaultEvery)
	p.MemoryBytes = cmp.Or(p.MemoryBytes, defaultBackgroundMemory)
	return p
}

// due reports whether a compaction of an index is due.
func (p *Policy) due(s *index.Stats) bool {
	added := s.Live >= p.AtLeast && float64(s.Live) >= p.Share*float64(s.Packed)
	removed := s.Removed >= p.AtLeast && float64(s.Removed) >= removedShare*float64(s.Packed+s.Live)
	return added || removed
}

// BackgroundStats describes the work of a Watcher.
type BackgroundStats struct {
	Running  bool      `json:"running"`
	Progress Progress  `json:"progress"` // of the running compaction
	Runs     uint64    `json:"runs"`     // successful compactions
	Last     Report    `json:"last"`     // of the last successful compaction
	LastEnd  time.Time `json:"lastEnd"`
	// error of the last compaction; "" if it succeeded or ended because the index was closed
	Failure string `json:"failure,omitempty"`

	Expired       uint64 `json:"expired"` // documents
	ExpiryFailure string `json:"expiryFailure,omitempty"`
}

// Watcher compacts an index when a compaction is due, and removes expired documents.
type Watcher struct {
	x      *index.Index
	policy Policy
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu    sync.Mutex
	stats BackgroundStats
}

// Background checks an open index at once and then periodically. When a compaction is due, it calls
// Compact, which then packs one table at a time. It removes expired documents, also during a
// compaction. The Watcher ends when it is closed, when ctx ends, or when the index is closed. A
// running compaction is then abandoned, and no document is lost. A failed compaction or removal is
// retried later. Background returns an error if p has an invalid value.
func Background(ctx context.Context, x *index.Index, p Policy) (*Watcher, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	w := &Watcher{x: x, policy: p.withDefaults(), cancel: cancel}
	if !p.Off {
		w.work.Go(func() { w.watch(ctx, w.compactIfDue) })
	}
	if p.Expiry != (index.Expiry{}) {
		w.work.Go(func() { w.watch(ctx, w.expire) })
	}
	return w, nil
}

// Stats returns statistics of the work so far. It is safe for concurrent use.
func (w *Watcher) Stats() BackgroundStats {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stats
}

// Close stops the Watcher and its compaction, and waits until both have ended. Later calls do
// nothing.
func (w *Watcher) Close() {
	w.cancel()
	w.work.Wait()
}

// watch calls look periodically, until the Watcher or the index is closed. After look has returned
// false, it skips retryAfter checks.
func (w *Watcher) watch(ctx context.Context, look func(context.Context, *index.Stats) bool) {
	tick := time.NewTicker(w.policy.Every)
	defer tick.Stop()
	for skip := 0; ; skip-- {
		s := w.x.Stats()
		if s.Format == 0 { // the index is closed
			return
		}
		if skip <= 0 && !look(ctx, &s) {
			skip = retryAfter
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
		if ctx.Err() != nil {
			return
		}
	}
}

func (w *Watcher) compactIfDue(ctx context.Context, s *index.Stats) bool {
	return !w.policy.due(s) || w.compact(ctx) == nil
}

func (w *Watcher) compact(ctx context.Context) error {
	w.note(func(s *BackgroundStats) { s.Running, s.Progress = true, Progress{} })
	report, err := Compact(ctx, w.x, Options{MemoryBytes: w.policy.MemoryBytes, gently: true,
		Progress: func(p Progress) {
			w.note(func(s *BackgroundStats) { s.Progress = p })
		}})
	w.note(func(s *BackgroundStats) {
		s.Running, s.Failure = false, message(failure(ctx, err))
		if err == nil {
			s.Runs, s.Last, s.LastEnd = s.Runs+1, report, time.Now()
		}
	})
	if w.policy.Done != nil {
		w.policy.Done(report, err)
	}
	return err
}

func (w *Watcher) expire(ctx context.Context, _ *index.Stats) bool {
	n, err := w.x.Expire(ctx, w.policy.Expiry)
	err = failure(ctx, err)
	w.note(func(s *BackgroundStats) {
		s.Expired += uint64(n)
		s.ExpiryFailure = message(err)
	})
	if w.policy.Expired != nil && (n > 0 || err != nil) {
		w.policy.Expired(n, err)
	}
	return err == nil
}

// failure returns err, or nil if the Watcher or the index was closed.
func failure(ctx context.Context, err error) error {
	if ctx.Err() != nil || errors.Is(err, index.ErrClosed) {
		return nil
	}
	return err
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func (w *Watcher) note(change func(*BackgroundStats)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(&w.stats)
}
