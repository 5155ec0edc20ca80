package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"

	"github.com/neardup/neardup/cmd/neardup/internal/corpus"
	"github.com/neardup/neardup/cmd/neardup/internal/documents"
	"github.com/neardup/neardup/cmd/neardup/internal/progress"
	"github.com/neardup/neardup/cmd/neardup/internal/summary"
	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/wire"
)

// quotedKeys describes in the help how keys are quoted.
const quotedKeys = `A key that begins with a double quote, or that has a line break, a tab or
another character that is not printable, is quoted like a string in Go: "a\tb",
with \n \t \" \\ \xHH \uHHHH and the other escapes of Go.
`

// lines writes JSON objects, one per line. Flush returns the first error. Call Flush after each
// batch, so that a reader sees a line as soon as its verdict is durable.
type lines struct{ *bufio.Writer }

func newLines(w io.Writer) lines { return lines{bufio.NewWriterSize(w, 64<<10)} }

// writeReady writes the lines of a batch up to the first document without a line, and returns the
// rest of the batch.
func (l lines) writeReady(batch []*documents.Input) (rest []*documents.Input) {
	for n, i := range batch {
		if i.Compared && i.Line == nil {
			return batch[n:]
		}
		if i.Line != nil {
			writeJSON(l.Writer, i.Line)
			i.Line = nil
		}
	}
	return nil
}

// flush flushes the lines of a batch. The documents of the batch that are not in rest are Finished.
func (l lines) flush(batch, rest []*documents.Input) error {
	if err := l.Flush(); err != nil {
		return err
	}
	for _, i := range batch[:len(batch)-len(rest)] {
		i.Finished = true
	}
	return nil
}

// writeJSON writes one object as a line.
func writeJSON(w *bufio.Writer, v any) error {
	line, err := wire.Append(w.AvailableBuffer(), v)
	if err == nil {
		_, err = w.Write(line)
	}
	return err
}

// printJSON prints one object as a line.
func (c *call) printJSON(v any) error {
	line, err := wire.Encode(v)
	if err == nil {
		_, err = c.out.Write(line)
	}
	return err
}

// writeTo calls do with a writer to a file, or to standard output if the name is "-". It calls
// prepare before it truncates the file, which can be an input. If prepare fails, the file is
// unchanged.
func (c *call) writeTo(
	name string, prepare func(output os.FileInfo) error, do func(*bufio.Writer) error,
) error {
	if name == "-" {
		var info os.FileInfo
		if file := c.outFile(); file != nil {
			info, _ = file.Stat()
		}
		if err := prepare(info); err != nil {
			return err
		}
		out := bufio.NewWriterSize(c.out, 256<<10)
		return cmp.Or(do(out), out.Flush()) // Flush returns earlier errors of out
	}
	_, missing := os.Stat(name)
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o666)
	if err != nil {
		return fmt.Errorf("output: %w", err)
	}
	info, err := file.Stat()
	if err == nil {
		err = prepare(info)
	}
	if err == nil && info.Mode().IsRegular() {
		err = file.Truncate(0)
	}
	if err != nil {
		err = errors.Join(err, file.Close())
		if missing != nil {
			err = errors.Join(err, os.Remove(name))
		}
		return err
	}
	out := bufio.NewWriterSize(file, 256<<10)
	return errors.Join(cmp.Or(do(out), out.Flush()), file.Close())
}

// reading shows the progress of a reader of inputs until account is called, which prints its
// totals.
func (c *call) reading(
	ctx context.Context, inputs string, r *corpus.Reader,
) (account func()) {
	stop := progress.New(c.cmd.Name(), c.err, c.outFile()).Reading(ctx, r)
	return func() { stop(); c.account(inputs, r) }
}

// counting shows the number of done units until stop is called. A total of 0 means unknown.
func (c *call) counting(stage string, total uint64) (done *atomic.Int64, stop func()) {
	done = new(atomic.Int64)
	bar := progress.New(c.cmd.Name(), c.err, c.outFile())
	return done, bar.Watch(stage, false, func() (int64, int64) { return done.Load(), int64(total) })
}

// compaction shows the stages of a compaction until stop is called.
func (c *call) compaction() (show func(compaction.Progress), stop func()) {
	bar := progress.New(c.cmd.Name(), c.err, nil)
	return func(p compaction.Progress) { bar.Show(p.Stage, int64(p.Done), int64(p.Total), false) },
		bar.Stop
}

// errUnrecognized means that the format of an input is not recognized.
var errUnrecognized = errors.New("input not recognized")

// errMalformed means that lines are not JSON or not fingerprints. Each of these lines is also
// reported when it is skipped.
var errMalformed = errors.New("malformed input")

// noteProblems sets the error of the subcommand if an input is not recognized, broken or malformed,
// or if no record has a field that a flag names.
func (c *call) noteProblems(r *corpus.Reader, t corpus.Totals) {
	if t.Unrecognized != nil {
		c.broken = errors.Join(c.broken, fmt.Errorf("%w: %w", errUnrecognized, t.Unrecognized))
	}
	// query --scan reads a list several times, and its error is printed once
	if err := r.Broken(); err != nil && (c.broken == nil ||
		!strings.Contains(c.broken.Error(), err.Error())) {
		c.broken = errors.Join(c.broken, err)
	}
	if n := t.Skipped[corpus.BadJSON] + t.Skipped[corpus.BadFingerprint]; n > 0 {
		c.broken = errors.Join(c.broken, fmt.Errorf("%w: %s, the first one in %s",
			errMalformed, summary.Plural(n, "record"), t.Malformed))
	}
	if missing := r.MissingFields(); len(missing) > 0 && t.Records > 0 {
		c.broken = errors.Join(c.broken, usagef("no record has the field of %s; the records were "+
			"processed without it", strings.Join(missing, ", ")))
	}
}

// accountFor prints the summary of the finished records. err is the error that ended the run.
func (c *call) accountFor(r *documents.Reader, err error) {
	t := r.Totals()
	for _, line := range r.Summary.Lines(t.Files) {
		c.logf("%s", line)
	}
	if t.Repaired > 0 {
		c.logf("%s with a wrong Content-Length in web archives, read up to the next record",
			summary.Plural(t.Repaired, "record"))
	}
	if ahead := t.Records - r.Summary.Records; ahead > 0 {
		advice := "; " + cmp.Or(c.again, "run again to finish")
		if errors.Is(err, index.ErrCorrupt) || errors.Is(err, index.ErrMismatch) ||
			errors.As(err, new(usageError)) { // another run would fail too
			advice = ""
		}
		c.logf("%s read ahead may not have been processed%s", summary.Plural(ahead, "record"),
			advice)
	}
	c.noteProblems(r.Reader, t)
}

// account prints the totals of a reader after the name of the inputs.
func (c *call) account(inputs string, r *corpus.Reader) {
	t := r.Totals()
	c.logf("%s: %s: %s, %d skipped%s", inputs, summary.InFiles(t.Records, t.Files),
		summary.Plural(t.Documents, "document"), t.Records-t.Documents,
		summary.Reasons(t.Skipped))
	c.noteProblems(r, t)
}
