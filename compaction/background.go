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

// Policy says what Background does, and when. The zero value is the default. Nothing in it may be below 0.
type Policy struct {
	// Expiry is what documents Background removes, see index.Expire. The zero value: none. Off does not turn it off.
	index.Expiry

	// Share is how many live changes there are, for each fingerprint that is packed, when the index is
	// compacted, and AtLeast how many there are then at least. 0: a quarter, and one million.
	Share   float64
	AtLeast uint64

	Every       time.Duration // between two looks. 0: 10 s
	MemoryBytes int64         // as Options has it. 0: 256 MiB

	Off bool // never compact

	// Done, if set, is called after each compaction, by one goroutine. It must not close the Watcher or what has it:
	// that waits for it. Where closing ends a compaction it is called with index.ErrClosed or the context's error.
	Done func(Report, error)

	// Expired, if set, is called after each removal of documents, by one goroutine, and where that fails. The rest of them goes
	// later. It must not close the Watcher either. That closing ends a removal is no failure.
	Expired func(documents int, err error)
}

const (
	defaultShare            = .25
	defaultAtLeast          = 1_000_000
	defaultEvery            = 10 * time.Second
	defaultBackgroundMemory = 256 << 20

	// retryAfter is how many looks are left out after a compaction that found nothing to pack (what was
	// written since was deleted since), and after anything that failed.
	retryAfter = 60
)

func (p *Policy) check() error {
	switch {
	case !(p.Share >= 0): // or it is no number
		return fmt.Errorf("policy of compaction: Share is %v, want 0 for the default, or more", p.Share)
	case p.Every < 0:
		return fmt.Errorf("policy of compaction: Every is %v, want 0 for the default, or more", p.Every)
	case p.MemoryBytes < 0:
		return fmt.Errorf("policy of compaction: MemoryBytes is %d, want 0 for the default, or more", p.MemoryBytes)
	case p.MaxAge < 0:
		return fmt.Errorf("policy of compaction: MaxAge is %v, want 0 for no bound, or more", p.MaxAge)
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

// due reports whether an index is to be compacted.
func (p *Policy) due(s *index.Stats) bool {
	return s.Live >= p.AtLeast && float64(s.Live) >= p.Share*float64(s.Packed)
}

// BackgroundStats is what a Watcher has done and does.
type BackgroundStats struct {
	Running  bool      `json:"running"`
	Progress Progress  `json:"progress"` // of the one that runs
	Runs     uint64    `json:"runs"`     // that went well
	Last     Report    `json:"last"`     // of these
	LastEnd  time.Time `json:"lastEnd"`
	Failure  string    `json:"failure,omitempty"` // of the last one, if it failed; closing is no failure

	Expired       uint64 `json:"expired"` // documents
	ExpiryFailure string `json:"expiryFailure,omitempty"`
}

// Watcher compacts an index when that is due, and removes documents that expire.
type Watcher struct {
	x      *index.Index
	policy Policy
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu    sync.Mutex
	stats BackgroundStats
}

// Background looks at an open index, at once and again and again. It compacts it whenever that is due, by Compact, packing one table at a time, and removes
// what expires, also while it compacts. It ends with Close, with ctx, and when the index is closed; what is under
// way then is given up, and nothing is lost. What fails is tried again after some time. Error: what the Policy
// says has no meaning; then nothing is begun.
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

// Stats may be called from any goroutine.
func (w *Watcher) Stats() BackgroundStats {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stats
}

// Close ends the watch, and what it does, and waits for that. It may be called again.
func (w *Watcher) Close() {
	w.cancel()
	w.work.Wait()
}

// watch looks at the index again and again. A look reports whether the next one is worth it.
func (w *Watcher) watch(ctx context.Context, look func(context.Context, *index.Stats) bool) {
	tick := time.NewTicker(w.policy.Every)
	defer tick.Stop()
	for leaveOut := 0; ; leaveOut-- {
		s := w.x.Stats()
		if s.Format == 0 { // it is closed
			return
		}
		if leaveOut <= 0 && !look(ctx, &s) {
			leaveOut = retryAfter
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
	return !w.policy.due(s) || w.compact(ctx) == nil && w.x.Stats().Generation != s.Generation
}

func (w *Watcher) compact(ctx context.Context) error {
	w.note(func(s *BackgroundStats) { s.Running, s.Progress = true, Progress{} })
	report, err := Compact(ctx, w.x, Options{MemoryBytes: w.policy.MemoryBytes, gently: true, Progress: func(p Progress) {
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
	w.note(func(s *BackgroundStats) { s.Expired, s.ExpiryFailure = s.Expired+uint64(n), message(err) })
	if w.policy.Expired != nil && (n > 0 || err != nil) {
		w.policy.Expired(n, err)
	}
	return err == nil
}

// failure returns an error, unless it says no more than that the Watcher or the index is closed.
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
