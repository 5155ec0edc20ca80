package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/neardup/neardup/cmd/neardup/internal/corpus"
	"github.com/neardup/neardup/compaction"
	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// quotedKeys says in the help how keys are written as text.
const quotedKeys = `A key that begins with a double quote, or has a line break, a tab or anything else that is
not printable, is written in double quotes with the escapes of Go and C: \n \t \" \\ \xHH.
`

// lines writes JSON objects, one a line. The first error sticks and comes back
// from flush.
type lines struct {
	buffer  *bufio.Writer
	line    bytes.Buffer
	encoder *json.Encoder // into line
	err     error
}

func newLines(w io.Writer) *lines {
	l := &lines{buffer: bufio.NewWriterSize(w, 64<<10)}
	l.encoder = json.NewEncoder(&l.line)
	l.encoder.SetEscapeHTML(false)
	return l
}

func (l *lines) write(v any) error {
	if line := l.encode(v); l.err == nil {
		l.buffer.Write(line)
		l.err = l.buffer.WriteByte('\n')
	}
	return l.err
}

// encode returns the JSON of a value, which holds until the next call.
func (l *lines) encode(v any) []byte {
	l.line.Reset()
	if err := l.encoder.Encode(v); l.err == nil {
		l.err = err
	}
	return escapeControls(bytes.TrimSuffix(l.line.Bytes(), []byte{'\n'}))
}

// escapeControls escapes the control characters that the encoder leaves as they are: DEL and
// U+0080 to U+009F, which some terminals act on. They stand in strings only.
func escapeControls(line []byte) []byte {
	if bytes.IndexByte(line, 0x7f) < 0 && bytes.IndexByte(line, 0xc2) < 0 { // U+0080 to U+009F begin with it
		return line
	}
	escaped := make([]byte, 0, len(line)+64)
	for _, r := range string(line) {
		if isDelOrC1(r) {
			escaped = fmt.Appendf(escaped, `\u%04x`, r)
		} else {
			escaped = utf8.AppendRune(escaped, r)
		}
	}
	return escaped
}

func isDelOrC1(r rune) bool { return r >= 0x7f && r <= 0x9f }

// flush hands on what was written. It must follow each batch: a reader of the
// output should see a line as soon as it holds.
func (l *lines) flush() error {
	if l.err == nil {
		l.err = l.buffer.Flush()
	}
	return l.err
}

// writeReady writes the lines of a batch, up to the first document whose line is not known yet,
// and returns the rest of the batch.
func (l *lines) writeReady(batch []*input) (rest []*input) {
	for n, i := range batch {
		if i.compared && i.line == nil {
			return batch[n:]
		}
		if i.line != nil {
			l.write(i.line)
			i.line = nil
		}
	}
	return nil
}

// printJSON prints one object.
func (c *call) printJSON(v any) error {
	out := newLines(c.out)
	out.write(v)
	return out.flush()
}

// writeTo gives do a writer to a file, or to standard output where the name is "-". A file
// is emptied by the first write: it may be the input too, which is read whole before that, and it
// is left as it is when that fails.
func (c *call) writeTo(name string, do func(*bufio.Writer) error) error {
	if name == "-" {
		out := bufio.NewWriterSize(c.out, 256<<10)
		return cmp.Or(do(out), out.Flush()) // its errors stick
	}
	_, missing := os.Stat(name)
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o666)
	if err != nil {
		return fmt.Errorf("output: %w", err)
	}
	to := &emptiedFile{File: file}
	out := bufio.NewWriterSize(to, 256<<10)
	if err = do(out); err == nil {
		_, err = to.Write(nil) // nothing may have been found
	}
	if to.emptied {
		err = cmp.Or(err, out.Flush())
	} else if missing != nil {
		err = errors.Join(err, os.Remove(name))
	}
	return errors.Join(err, file.Close())
}

// emptiedFile is a file that the first write empties.
type emptiedFile struct {
	*os.File
	emptied bool
}

func (f *emptiedFile) Write(p []byte) (int, error) {
	if !f.emptied {
		if err := f.Truncate(0); err != nil && !errors.Is(err, syscall.EINVAL) { // a pipe or a device
			return 0, err
		}
		f.emptied = true
	}
	return f.File.Write(p)
}

// progressBar shows how far the work is, stage by stage, on a terminal. A nil one does nothing.
type progressBar struct {
	call  *call
	mu    sync.Mutex
	stage string
	bar   *progressbar.ProgressBar
}

// newProgressBar returns nil where standard error is no terminal, or where the bar would stand
// among results that are printed meanwhile.
func (c *call) newProgressBar(results bool) *progressBar {
	if !isTerminal(c.err) || results && isTerminal(c.out) {
		return nil
	}
	return &progressBar{call: c}
}

// show shows how much of a stage is done, of a total that may be unknown: 0 or less.
func (p *progressBar) show(stage string, done, total int64, bytes bool) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar == nil || stage != p.stage {
		p.clear()
		if total <= 0 {
			total = -1 // a spinner
		}
		name := p.call.command.name
		if stage != "" {
			name += ": " + stage
		}
		p.stage = stage
		p.bar = progressbar.NewOptions64(total,
			progressbar.OptionSetWriter(p.call.err),
			progressbar.OptionSetPredictTime(true),
			progressbar.OptionShowElapsedTimeOnFinish(),
			progressbar.OptionClearOnFinish(),
			progressbar.OptionShowBytes(bytes),
			progressbar.OptionSetDescription(name))
	}
	p.bar.Set64(done)
}

func (p *progressBar) clear() {
	if p.bar != nil {
		p.bar.Clear()
		p.bar = nil
	}
}

// stop takes the bar away.
func (p *progressBar) stop() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
}

// compaction shows the stages of a compaction.
func (p *progressBar) compaction(stage compaction.Progress) {
	p.show(stage.Stage, int64(stage.Done), int64(stage.Total), false)
}

// startProgress shows how far the reading has come, until stop is called.
func (c *call) startProgress(ctx context.Context, r *corpus.Reader) (stop func()) {
	bar := c.newProgressBar(true)
	if bar == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer bar.stop()
		r.Measure(ctx) // if it fails, there is no total
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				read, total := r.Progress()
				bar.show("", read, total, true)
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() { cancel(); <-done }
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
	names := slices.SortedFunc(maps.Keys(counts), byCount(counts))
	for i, name := range names {
		names[i] = fmt.Sprintf("%s %d", name, counts[name])
	}
	return " (" + strings.Join(names, ", ") + ")"
}
