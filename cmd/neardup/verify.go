package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/schollz/progressbar/v3"

	"github.com/neardup/neardup/index"
)

var verifyCommand = command{
	name:    "verify",
	args:    "-index DIR",
	summary: "check everything in an index against everything else; a JSON line for each problem, exit 1 if there is any",
	run:     runVerify,
}

// errProblems makes the command exit with 1.
var errProblems = errors.New("the index is damaged; \"neardup repair\" saves what can be saved")

func runVerify(ctx context.Context, c *call) error {
	indexes := c.indexFlags()
	memory := c.flags.Int64("memory", 256, "memory for sorting, where parts of the index differ, in `MiB`")
	if err := c.parseFlags(); err != nil {
		return err
	}
	if *memory < 1 {
		return usagef("-memory is %d MiB, want 1 or more", *memory)
	}
	out := newLines(c.out)
	x, err := indexes.openReadOnly("")
	if errors.Is(err, index.ErrCorrupt) {
		out.write(index.Problem{Kind: index.Unreadable, Keyspace: "index", Message: err.Error()})
		if err := out.flush(); err != nil {
			return err
		}
		return errProblems
	}
	if err != nil {
		return err
	}
	opts := index.VerifyOptions{MemoryBytes: *memory << 20}
	var stop func()
	opts.Progress, stop = c.startReading()
	counts, err := writeProblems(out, x.Verify(ctx, opts))
	stop()
	stats := x.Stats()
	if err := errors.Join(err, out.flush(), x.Close()); err != nil {
		return err
	}
	if len(counts) > 0 {
		total := int64(0)
		for _, n := range counts {
			total += n
		}
		c.logf("%s: %d problems%s", indexes.dir, total, reasons(counts))
		return errProblems
	}
	c.logf("%s: no problem in %d documents, %d tables", indexes.dir, stats.Documents, stats.Tables)
	return nil
}

// writeProblems writes a line for each problem and counts them by kind. The error is
// what kept the rest from being looked at.
func writeProblems(out *lines, problems func(func(index.Problem) bool)) (counts map[string]int64, err error) {
	counts = map[string]int64{}
	for p := range problems {
		if p.Kind == index.Unchecked && p.Err != nil {
			err = p.Err
		}
		counts[string(p.Kind)]++
		out.write(p)
		if out.flush() != nil {
			break
		}
	}
	return counts, err
}

// startReading shows what is being read, on a terminal. stop takes it away.
func (c *call) startReading() (progress func(stage string, done uint64), stop func()) {
	if !isTerminal(c.err) || isTerminal(c.out) {
		return nil, func() {}
	}
	var bar *progressbar.ProgressBar
	at := ""
	progress = func(stage string, done uint64) {
		if stage != at {
			if bar != nil {
				bar.Clear()
			}
			at, bar = stage, c.newBar(-1, fmt.Sprintf("%s: %s", c.command.name, stage), progressbar.OptionShowBytes(stage == "files"))
		}
		bar.Set64(int64(done))
	}
	return progress, func() {
		if bar != nil {
			bar.Clear()
		}
	}
}
