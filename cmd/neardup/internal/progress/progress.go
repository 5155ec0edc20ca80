// Package progress shows the progress of work on a terminal: the completed part, the rate and the
// remaining time. It writes nothing if standard error is not a terminal, or if the results go to a
// terminal.
package progress

import (
	"context"
	"io"
	"os"
	"sync"
	"time"

	"github.com/neardup/neardup/cmd/neardup/internal/corpus"
	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// Bar shows the progress of one stage at a time in a line of a terminal. A nil Bar does nothing.
type Bar struct {
	name string
	to   io.Writer

	mu    sync.Mutex
	stage string
	bar   *progressbar.ProgressBar
}

// New returns a progress bar with a name. It returns nil if to is not a terminal, or if results is
// a terminal too, since the bar would appear among the results. results can be nil.
func New(name string, to, results io.Writer) *Bar {
	if !isTerminal(to) || isTerminal(results) {
		return nil
	}
	return &Bar{name: name, to: to}
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Show shows how much of a stage is done. If total is 0 or less, it is unknown.
func (b *Bar) Show(stage string, done, total int64, bytes bool) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.bar == nil || stage != b.stage {
		b.clear()
		if total <= 0 {
			total = -1 // a spinner
		}
		name := b.name
		if stage != "" {
			name += ": " + stage
		}
		b.stage = stage
		b.bar = progressbar.NewOptions64(total,
			progressbar.OptionSetWriter(b.to),
			progressbar.OptionSetPredictTime(true),
			progressbar.OptionShowElapsedTimeOnFinish(),
			progressbar.OptionClearOnFinish(),
			progressbar.OptionShowBytes(bytes),
			progressbar.OptionShowCount(),
			progressbar.OptionShowIts(),
			progressbar.OptionSetDescription(name))
	}
	b.bar.Set64(done)
}

func (b *Bar) clear() {
	if b.bar != nil {
		b.bar.Clear()
		b.bar = nil
	}
}

// Stop removes the bar.
func (b *Bar) Stop() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.clear()
}

// Watch shows the progress that read returns, until stop is called.
func (b *Bar) Watch(stage string, bytes bool, read func() (done, total int64)) (stop func()) {
	if b == nil {
		return func() {}
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		defer b.Stop()
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				n, total := read()
				b.Show(stage, n, total, bytes)
			case <-done:
				return
			}
		}
	})
	return func() { close(done); wg.Wait() }
}

// Reading shows how much of the inputs has been read, until stop is called.
func (b *Bar) Reading(ctx context.Context, in *corpus.Reader) (stop func()) {
	if b == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	go in.Measure(ctx)
	stopped := b.Watch("", true, in.Progress)
	return func() { cancel(); stopped() }
}
