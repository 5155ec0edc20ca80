package compaction

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/neardup/neardup/index"
)

// Policy says when Background compacts. The zero value is the default.
type Policy struct {
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
}

const (
	defaultShare            = .25
	defaultAtLeast          = 1_000_000
	defaultEvery            = 10 * time.Second
	defaultBackgroundMemory = 256 << 20

	// retryAfter is how many looks are left out after a compaction that failed, or found nothing to pack: what was
	// written since was deleted since.
	retryAfter = 60
)

func (p Policy) withDefaults() Policy {
	if p.Share <= 0 {
		p.Share = defaultShare
	}
	if p.AtLeast == 0 {
		p.AtLeast = defaultAtLeast
	}
	if p.Every <= 0 {
		p.Every = defaultEvery
	}
	if p.MemoryBytes <= 0 {
		p.MemoryBytes = defaultBackgroundMemory
	}
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
	Failure  string    `json:"failure,omitempty"` // of the last one, if it failed
}

// Watcher compacts an index when that is due.
type Watcher struct {
	x      *index.Index
	policy Policy
	cancel context.CancelFunc
	done   chan struct{}

	mu    sync.Mutex
	stats BackgroundStats
}

// Background compacts an open index whenever that is due, by Compact, packing one table at a time. It ends
// with Close, with ctx, and when the index is closed; what is under way then is given up, and nothing is lost.
// A compaction that fails is tried again after some time.
func Background(ctx context.Context, x *index.Index, p Policy) *Watcher {
	ctx, cancel := context.WithCancel(ctx)
	w := &Watcher{x: x, policy: p.withDefaults(), cancel: cancel, done: make(chan struct{})}
	if p.Off {
		close(w.done)
		return w
	}
	go w.run(ctx)
	return w
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
	<-w.done
}

func (w *Watcher) run(ctx context.Context) {
	defer close(w.done)
	tick := time.NewTicker(w.policy.Every)
	defer tick.Stop()
	for leaveOut := 0; ; leaveOut-- {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		s := w.x.Stats()
		if s.Format == 0 { // it is closed
			return
		}
		if leaveOut > 0 || !w.policy.due(&s) {
			continue
		}
		err := w.compact(ctx)
		if ctx.Err() != nil || errors.Is(err, index.ErrClosed) {
			return
		}
		if err != nil || w.x.Stats().Generation == s.Generation {
			leaveOut = retryAfter
		}
	}
}

func (w *Watcher) compact(ctx context.Context) error {
	w.note(func(s *BackgroundStats) { s.Running, s.Progress = true, Progress{} })
	report, err := Compact(ctx, w.x, Options{MemoryBytes: w.policy.MemoryBytes, gently: true, Progress: func(p Progress) {
		w.note(func(s *BackgroundStats) { s.Progress = p })
	}})
	w.note(func(s *BackgroundStats) {
		s.Running, s.Failure = false, ""
		if err != nil {
			s.Failure = err.Error()
			return
		}
		s.Runs, s.Last, s.LastEnd = s.Runs+1, report, time.Now()
	})
	if w.policy.Done != nil {
		w.policy.Done(report, err)
	}
	return err
}

func (w *Watcher) note(change func(*BackgroundStats)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(&w.stats)
}
