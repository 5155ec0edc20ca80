package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/neardup/neardup/cmd/neardup/internal/corpus"
	"github.com/neardup/neardup/compaction"
)

// startProgress shows how far the reading has come, on a terminal, while the
// results go elsewhere. stop takes it away.
func (c *call) startProgress(ctx context.Context, r *corpus.Reader) (stop func()) {
	if !isTerminal(c.err) || isTerminal(c.out) {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Measure(ctx) // if it fails, there is no total
		_, total := r.Progress()
		bar := c.newBar(total, c.command.name, progressbar.OptionShowBytes(true))
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				read, _ := r.Progress()
				bar.Set64(read)
			case <-ctx.Done():
				bar.Clear()
				return
			}
		}
	}()
	return func() { cancel(); <-done }
}

func (c *call) newBar(total int64, name string, more ...progressbar.Option) *progressbar.ProgressBar {
	return progressbar.NewOptions64(total, append(more,
		progressbar.OptionSetWriter(c.err),
		progressbar.OptionSetPredictTime(true),
		progressbar.OptionShowElapsedTimeOnFinish(),
		progressbar.OptionClearOnFinish(),
		progressbar.OptionSetDescription(name))...)
}

// startStages shows the stages of a compaction, one bar after the other. stop takes
// the last one away.
func (c *call) startStages() (progress func(compaction.Progress), stop func()) {
	if !isTerminal(c.err) {
		return nil, func() {}
	}
	var mu sync.Mutex
	var bar *progressbar.ProgressBar
	stage := ""
	progress = func(p compaction.Progress) {
		mu.Lock()
		defer mu.Unlock()
		if p.Stage != stage {
			if bar != nil {
				bar.Clear()
			}
			total := int64(p.Total)
			if total == 0 {
				total = -1 // a spinner
			}
			stage, bar = p.Stage, c.newBar(total, c.command.name+": "+p.Stage)
		}
		bar.Set64(int64(p.Done))
	}
	return progress, func() {
		mu.Lock()
		defer mu.Unlock()
		if bar != nil {
			bar.Clear()
		}
	}
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// account says of each input what became of its records, and returns their number. A
// broken input makes the subcommand fail in the end.
func (c *call) account(r *corpus.Reader) (records int64) {
	if err := r.Broken(); err != nil && (c.broken == nil || !strings.Contains(c.broken.Error(), err.Error())) { // a list may be read several times
		c.broken = errors.Join(c.broken, err)
	}
	for _, t := range r.Totals() {
		records += t.Records
		c.logf("%s: %d records in %d files: %d documents, %d skipped%s", t.Input, t.Records, t.Files, t.Documents, t.Skips(), reasons(t.Skipped))
	}
	return records
}

// reasons lists counts by reason, the most frequent first.
func reasons(counts map[string]int64) string {
	if len(counts) == 0 {
		return ""
	}
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		if counts[a] != counts[b] {
			return int(counts[b] - counts[a])
		}
		return strings.Compare(a, b)
	})
	for i, name := range names {
		names[i] = fmt.Sprintf("%s %d", name, counts[name])
	}
	return " (" + strings.Join(names, ", ") + ")"
}
