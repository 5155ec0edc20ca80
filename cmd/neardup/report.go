package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/neardup/neardup"
	"github.com/neardup/neardup/cmd/neardup/internal/compare"
	"github.com/neardup/neardup/cmd/neardup/internal/corpus"
	"github.com/neardup/neardup/cmd/neardup/internal/documents"
	"github.com/neardup/neardup/cmd/neardup/internal/summary"
	"github.com/neardup/neardup/cmd/neardup/internal/view"
)

// report is the file of dedup --report. If name is "", its methods do nothing.
type report struct {
	call   *call
	name   string
	inputs *inputFlags
	begun  time.Time

	sample    *compare.Sample
	distances [65]int64 // of duplicates
}

func (c *call) reportFlag(inputs *inputFlags) *report {
	r := &report{call: c, inputs: inputs, sample: compare.NewSample()}
	c.flags.StringVar(&r.name, "report", "", "write an HTML report to this `file`: counts, the "+
		"largest groups, distances, and pairs near the limits with the words that differ")
	return r
}

// open checks that the report can be written, before any input is read. It removes its test file,
// because the report can be in a directory that is an input. The report must not replace an input
// or another output.
func (r *report) open(records string) error {
	if r.name == "" {
		return nil
	}
	if r.name == "-" {
		return usagef("--report is -, want a file: the verdicts go to standard output")
	}
	if info, err := os.Stat(r.name); err == nil && !info.Mode().IsRegular() {
		return usagef("--report %s is not a regular file", r.name)
	}
	for _, name := range append(slices.Clone(r.call.args), records) {
		if sameFile(name, r.name) {
			return usagef("--report %s is an input or the file of --output: name another file",
				r.name)
		}
	}
	r.begun = time.Now()
	return r.writeWhole(nil)
}

// writeWhole writes a temporary file in the directory of the report and renames it. If content is
// nil, it only checks that the file can be created.
func (r *report) writeWhole(content *view.Report) error {
	name := filepath.Join(filepath.Dir(r.name), fmt.Sprintf(".%s.%d.tmp",
		filepath.Base(r.name), os.Getpid()))
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return fmt.Errorf("--report: %w", err)
	}
	if content == nil {
		return errors.Join(file.Close(), os.Remove(name))
	}
	out := bufio.NewWriterSize(file, 64<<10)
	if err = cmp.Or(content.Write(out), out.Flush(), file.Sync(), file.Close()); err == nil {
		err = os.Rename(name, r.name)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("--report: %w", err), os.Remove(name))
	}
	return nil
}

// add adds a document whose verdict was printed.
func (r *report) add(i *documents.Input) {
	if r.name == "" {
		return
	}
	d := i.Document
	d.Key = i.Name()
	r.sample.Add(&d, i.Record.Source, i.Record.Number)
	if i.Verdict == neardup.Duplicate.String() {
		r.distances[i.Of.Distance]++
	}
}

const (
	reportPairs  = 8  // on each side of the limits
	reportGroups = 20 // the largest
	reportPlaces = 12 // where words of a pair differ
)

// write writes the report completely or not at all.
func (r *report) write(ctx context.Context, d *dedup, a *documents.Analyzer) error {
	if r.name == "" {
		return nil
	}
	k := d.index.Plan().MaxDistance
	s := d.summary
	page := &view.Report{
		Inputs: r.call.args, Analyzer: d.index.Stats().Analyzer, Rule: d.rule, Begun: r.begun,
		Took:    time.Since(r.begun),
		Records: s.Records, Compared: s.Compared, Duplicates: s.Duplicates(),
		Verdicts: s.VerdictCounts(), Skips: summary.Counts(s.Skips, len(s.Skips)),
		Groups:    summary.Counts(s.Groups.N, reportGroups),
		GroupsLow: s.Groups.Lowered, Distances: r.distances[:k+1],
	}
	if !d.temporary {
		page.Index = d.indexes.dir
	}
	if crowded := d.index.Stats().Crowded; crowded != "" {
		page.Notes = append(page.Notes, "Warning: "+crowded+".")
	}
	if r.call.broken != nil {
		page.Notes = append(page.Notes, "The inputs could not be read completely: "+
			r.call.broken.Error())
	}
	if err := r.pairs(ctx, page, a); err != nil {
		return fmt.Errorf("--report: %w", err)
	}
	return r.writeWhole(page)
}

// pairs adds the pairs near the limits, and the words in which they differ, to the page.
func (r *report) pairs(ctx context.Context, page *view.Report, a *documents.Analyzer) (err error) {
	if page.Sample, err = r.sample.Pairs(ctx, page.Rule, reportPairs); err != nil {
		return err
	}
	wanted := make(map[place]*compare.Sampled)
	for _, p := range slices.Concat(page.Sample.Inside, page.Sample.Outside) {
		for _, d := range []*compare.Sampled{p.A, p.B} {
			wanted[place{d.Source, d.Number}] = d
		}
	}
	if err := r.words(ctx, maps.Clone(wanted), a); err != nil {
		return err
	}
	maps.DeleteFunc(wanted, func(_ place, d *compare.Sampled) bool { return d.Words != nil })
	if missing := len(wanted); missing > 0 {
		page.Notes = append(page.Notes, fmt.Sprintf("The words of %d documents below are not "+
			"known: their inputs have changed, cannot be read again, or are fingerprints.",
			missing))
	}
	results := func(pairs []compare.Pair) (results []*compare.Result) {
		for _, p := range pairs {
			results = append(results, compare.Documents(&p.A.Document, &p.B.Document,
				page.Rule, reportPlaces))
		}
		return results
	}
	page.Inside, page.Outside = results(page.Sample.Inside), results(page.Sample.Outside)
	return nil
}

// place is the position of a record.
type place struct {
	source string
	number int64
}

// words reads the inputs again, up to the last wanted record, and sets the words of the wanted
// records. It removes these records from wanted.
func (r *report) words(
	ctx context.Context, wanted map[place]*compare.Sampled, a *documents.Analyzer,
) error {
	again := slices.DeleteFunc(slices.Clone(r.call.args), corpus.IsStream)
	if a.Signer == nil || len(again) == 0 || len(wanted) == 0 {
		return nil
	}
	inputs := *r.inputs
	inputs.Originals = false
	reader, err := inputs.readerOf(again...)
	if err != nil {
		return nil // the inputs were removed
	}
	for raw, err := range reader.RawRecords(ctx) {
		if err != nil {
			break
		}
		source, number := raw.Place()
		d, ok := wanted[place{source, number}]
		if !ok {
			continue
		}
		delete(wanted, place{source, number})
		record := raw.Parse()
		now, err := a.Described("", &record, compare.MaxText)
		// the record is unchanged
		if err == nil && now.Fingerprint == d.Fingerprint && now.Shingles == d.Shingles &&
			now.Words != nil {
			d.Words = now.Words
		}
		if len(wanted) == 0 {
			break
		}
	}
	return ctx.Err()
}
