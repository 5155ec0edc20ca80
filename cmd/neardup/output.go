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
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/neardup/neardup"
	"github.com/neardup/neardup/cmd/neardup/internal/compare"
	"github.com/neardup/neardup/cmd/neardup/internal/corpus"
	"github.com/neardup/neardup/cmd/neardup/internal/view"
	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/internal/match"
	"github.com/neardup/neardup/internal/wire"
	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// quotedKeys says in the help how keys are written as text.
const quotedKeys = `A key that begins with a double quote, or has a line break, a tab or anything else that is
not printable, is written in double quotes with the escapes of Go and C: \n \t \" \\ \xHH.
`

// keyBytes is a key that is not UTF-8, of which JSON has U+FFFD for the rest; nil for all others.
func keyBytes(key string) []byte {
	if utf8.ValidString(key) {
		return nil
	}
	return []byte(key)
}

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
	return wire.EscapeControls(bytes.TrimSuffix(l.line.Bytes(), []byte{'\n'}))
}

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
func reasons(of map[string]int64) string {
	if len(of) == 0 {
		return ""
	}
	var list []string
	for _, reason := range counts(of, len(of)) {
		list = append(list, fmt.Sprintf("%s %d", reason.Name, reason.N))
	}
	return " (" + strings.Join(list, ", ") + ")"
}

// report is the file that dedup -report writes; without a name there is none.
type report struct {
	call   *call
	name   string
	inputs *inputFlags
	begun  time.Time

	sample    *compare.Sample
	distances []int64 // of duplicates
}

func (c *call) reportFlag(inputs *inputFlags) *report {
	r := &report{call: c, inputs: inputs, sample: compare.NewSample()}
	c.flags.StringVar(&r.name, "report", "", "HTML `file` for people: counts, the largest groups, distances, and pairs around the limits with the words that differ")
	return r
}

// open makes sure that the report can be written before anything is read. What it tries that with
// is gone again: the report may be in a folder that is read.
func (r *report) open() error {
	if r.name == "" {
		return nil
	}
	if info, err := os.Stat(r.name); err == nil && !info.Mode().IsRegular() {
		return usagef("-report %s is no regular file", r.name)
	}
	for _, name := range r.call.args {
		if sameFolder(name, r.name) {
			return usagef("-report %s is an input", r.name)
		}
	}
	r.begun = time.Now()
	return r.writeWhole(nil)
}

// writeWhole writes a file beside the report and gives it its name; without content, it only tries.
func (r *report) writeWhole(content *view.Report) error {
	name := filepath.Join(filepath.Dir(r.name), fmt.Sprintf(".%s.%d.tmp", filepath.Base(r.name), os.Getpid()))
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return fmt.Errorf("-report: %w", err)
	}
	if content == nil {
		return errors.Join(file.Close(), os.Remove(name))
	}
	out := bufio.NewWriterSize(file, 64<<10)
	if err = cmp.Or(content.Write(out), out.Flush(), file.Sync(), file.Close()); err == nil {
		err = os.Rename(name, r.name)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("-report: %w", err), os.Remove(name))
	}
	return nil
}

// add takes a document whose line is written.
func (r *report) add(i *input) {
	if r.name == "" || !i.compared {
		return
	}
	r.sample.Add(&i.document, i.record.Source, i.record.Number)
	if i.verdict == neardup.Duplicate.String() {
		if missing := i.of.Distance + 1 - len(r.distances); missing > 0 {
			r.distances = append(r.distances, make([]int64, missing)...)
		}
		r.distances[i.of.Distance]++
	}
}

const (
	reportPairs  = 8  // on each side of the limits
	reportGroups = 20 // the largest
	reportPlaces = 12 // where words of a pair differ
	// reportText is how many bytes of a text are compared word by word.
	reportText = 256 << 10
)

// write writes the report, whole or not at all.
func (r *report) write(ctx context.Context, d *dedup, a *analyzer) error {
	if r.name == "" {
		return nil
	}
	k := d.index.Plan().MaxDistance
	rule := match.For(d.index.Stats().Analyzer, k).With(d.match.shingle, d.match.ratio)
	if missing := k + 1 - len(r.distances); missing > 0 {
		r.distances = append(r.distances, make([]int64, missing)...)
	}
	s := d.summary
	page := &view.Report{
		Inputs: r.call.args, Analyzer: d.index.Stats().Analyzer, Rule: rule, Begun: r.begun, Took: time.Since(r.begun),
		Records: s.records, Compared: s.compared, Duplicates: s.verdicts[neardup.Duplicate.String()],
		Verdicts: counts(s.verdicts, len(s.verdicts)), Skips: counts(s.skips, len(s.skips)), Groups: counts(s.groups.n, reportGroups),
		GroupsLow: s.groups.lowered, Distances: r.distances,
	}
	if !d.indexes.temporary {
		page.Index = d.indexes.dir
	}
	if r.call.broken != nil {
		page.Notes = append(page.Notes, "The inputs could not be read whole: "+r.call.broken.Error())
	}
	if err := r.pairs(ctx, page, a); err != nil {
		return fmt.Errorf("-report: %w", err)
	}
	return r.writeWhole(page)
}

// pairs finds the pairs around the limits, and their words.
func (r *report) pairs(ctx context.Context, page *view.Report, a *analyzer) (err error) {
	if page.Sample, err = r.sample.Pairs(ctx, page.Rule, reportPairs); err != nil {
		return err
	}
	wanted := make(map[place]*compare.Sampled)
	for _, p := range slices.Concat(page.Sample.Inside, page.Sample.Outside) {
		for _, d := range []*compare.Sampled{p.A, p.B} {
			wanted[place{d.Source, d.Number}] = d
		}
	}
	found, err := r.words(ctx, wanted, a)
	if err != nil {
		return err
	}
	if missing := len(wanted) - found; missing > 0 {
		page.Notes = append(page.Notes, fmt.Sprintf("The words of %d documents below are not known: their inputs cannot be read a second time, have changed, or are fingerprints.", missing))
	}
	results := func(pairs []compare.Pair) (results []*compare.Result) {
		for _, p := range pairs {
			results = append(results, compare.Documents(&p.A.Document, &p.B.Document, page.Rule, reportPlaces))
		}
		return results
	}
	page.Inside, page.Outside = results(page.Sample.Inside), results(page.Sample.Outside)
	return nil
}

// place is where a record stands.
type place struct {
	source string
	number int64
}

// words reads the inputs again, up to the last record that is wanted, for the words of these.
func (r *report) words(ctx context.Context, wanted map[place]*compare.Sampled, a *analyzer) (found int, err error) {
	var again []string
	for _, name := range r.call.args {
		info, err := os.Stat(name)
		if _, opened := r.inputs.opened[name]; err == nil && !opened && name != "-" && (info.Mode().IsRegular() || info.IsDir()) {
			again = append(again, name)
		}
	}
	if a.Signer == nil || len(again) == 0 || len(wanted) == 0 {
		return 0, nil
	}
	inputs := *r.inputs
	inputs.originals = nil
	reader, err := inputs.readerOf(again...)
	if err != nil {
		return 0, nil // they are gone
	}
	left := maps.Clone(wanted)
	for raw, err := range reader.RawRecords(ctx) {
		if err != nil {
			return found, ctx.Err()
		}
		source, number := raw.Place()
		d, ok := left[place{source, number}]
		if !ok {
			continue
		}
		delete(left, place{source, number})
		if i := (&input{record: raw.Parse()}); i.record.Skip == nil {
			if d.Words, err = a.words(i, d); err != nil {
				return found, err
			} else if d.Words != nil {
				found++
			}
		}
		if len(left) == 0 {
			break
		}
	}
	return found, ctx.Err()
}

// words are those of a record, if it is the document that it was.
func (a *analyzer) words(i *input, was *compare.Sampled) ([]string, error) {
	text := a.Text(kindOf(&i.record), i.record.ContentType, i.record.Content)
	d, reason, err := a.document(i.key(), &i.record)
	if now := compare.Of(&d); err != nil || reason != "" || now.Fingerprint != was.Fingerprint || now.Shingle != was.Shingle {
		return nil, err
	}
	if len(text) > reportText {
		text = strings.ToValidUTF8(text[:reportText], "")
	}
	return strings.Fields(strings.Clone(text)), nil
}

// counts are the largest of counts by name, the largest first.
func counts(of map[string]int64, most int) (list []view.Count) {
	for name, n := range of {
		list = append(list, view.Count{Name: name, N: n})
	}
	slices.SortFunc(list, func(a, b view.Count) int { return cmp.Or(cmp.Compare(b.N, a.N), strings.Compare(a.Name, b.Name)) })
	return list[:min(most, len(list))]
}
