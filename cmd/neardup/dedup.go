package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
)

var dedupCommand = command{
	name:    "dedup",
	args:    "[-index DIR] [-k 6] [-max-shingle-distance 16] [-text main] [-scope host] INPUT...",
	summary: "check each document against those stored, store it if it is new, and print the verdict",
	run:     runDedup,
}

// verdictLine is printed for each document once its verdict is durable.
type verdictLine struct {
	Key         string                   `json:"key"`
	Fingerprint *fingerprint.Fingerprint `json:"fingerprint,omitempty"`
	Verdict     string                   `json:"verdict"`
	Of          *referenceLine           `json:"of,omitempty"`
	Reason      string                   `json:"reason,omitempty"`
	At          string                   `json:"at,omitempty"` // of what is skipped: file, record, byte
}

// referenceLine is the nearest document that a duplicate is near to.
type referenceLine struct {
	Key      string `json:"key"`
	Distance int    `json:"distance"`
	Index    string `json:"index,omitempty"` // folder of the reference that has it
}

// skipped is the verdict on a document that could not be compared.
const skipped = "skipped"

func runDedup(ctx context.Context, c *call) (err error) {
	inputs := c.inputFlags().scopeFlag().analyzerFlags()
	indexes := c.indexFlags().makingFlags(defaultK)
	match := c.matchFlags()
	references := c.againstFlag()
	keep := c.flags.Bool("keep-duplicates", false, "store duplicates too")
	if err := c.parse(); err != nil {
		return err
	}
	a, err := inputs.analyzer()
	if err != nil {
		return err
	}
	o, err := indexes.options(a)
	if err != nil {
		return err
	}
	if err := match.check(); err != nil {
		return err
	}
	o.KeepDuplicates, o.MaxShingleDistance, o.MaxLengthRatio = *keep, match.shingle, match.ratio
	reader, err := inputs.reader() // before the index: a missing input should not make one
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, references.close()) }()
	if err := references.open(indexes, a.name); err != nil {
		return err
	}
	x, remove, err := indexes.openOrTemporary(o)
	if err != nil {
		return err
	}
	d := &dedup{index: x, references: references, match: match, keep: *keep, lines: newLines(c.out), verdicts: make(map[string]int64)}
	if err = references.check(x.Plan().MaxDistance); err == nil {
		err = c.forEachBatch(ctx, reader, a, maxBatch, 0, func(batch []*input) error { return d.check(ctx, batch) })
	}
	if len(d.verdicts) > 0 {
		c.logf("verdicts%s", reasons(d.verdicts))
	}
	return errors.Join(err, x.Close(), remove())
}

type dedup struct {
	index      *index.Index
	references *references
	match      *matchFlags
	keep       bool // duplicates are stored too
	lines      *lines
	verdicts   map[string]int64
}

// check comes to the verdicts on a batch and prints them. When it fails part of the
// way, it prints those that hold.
func (d *dedup) check(ctx context.Context, batch []*input) error {
	inputs := compared(batch)
	if err := d.references.find(ctx, inputs, d.match, d.index.Plan().MaxDistance); err != nil {
		return err
	}
	var left []*input // that no reference has, or all if duplicates are stored
	for _, i := range inputs {
		if i.reference == nil || d.keep {
			left = append(left, i)
		}
	}
	verdicts, err := d.index.CheckAndAddBatch(ctx, documents(left))
	for n := range verdicts {
		left[n].verdict = &verdicts[n]
	}
	for _, i := range batch {
		if i.skipped == "" && i.verdict == nil && (i.reference == nil || d.keep) {
			break // err says why
		}
		if line, ok := lineOf(i); ok {
			d.verdicts[line.Verdict]++
			d.lines.write(line)
		}
	}
	return errors.Join(err, d.lines.flush())
}

// lineOf returns the line of an input with its verdict.
func lineOf(i *input) (verdictLine, bool) {
	if i.skipped != "" {
		return skipLine(i)
	}
	line := verdictLine{Key: i.document.Key, Fingerprint: &i.document.Fingerprint, Verdict: index.Duplicate.String(), Of: i.reference}
	if i.reference != nil {
		return line, true
	}
	line.Verdict = i.verdict.Status.String()
	if i.verdict.Status == index.Duplicate {
		line.Of = &referenceLine{Key: i.verdict.Of.Key, Distance: i.verdict.Of.Distance}
	}
	return line, true
}

// skipLine returns the line of a document that could not be compared. There is none of what
// is compared, and of a record that is no document by its nature: that is only counted.
func skipLine(i *input) (verdictLine, bool) {
	if i.skipped == "" || i.record.Skip != nil && !i.record.Skip.Document {
		return verdictLine{}, false
	}
	return verdictLine{Key: i.key(), Verdict: skipped, Reason: i.skipped, At: position(&i.record)}, true
}

// references are indexes that documents are compared with and that nothing is added to.
type references struct {
	call    *call
	dirs    []string
	indexes []*index.Index // of dirs
}

func (c *call) againstFlag() *references {
	r := &references{call: c}
	c.flags.Func("against", "`folder` of an index to compare with first, to which nothing is added; may be given several times", func(dir string) error {
		if dir == "" {
			return errors.New("the name of the folder is empty")
		}
		r.dirs = append(r.dirs, dir)
		return nil
	})
	return r
}

// open opens the references. Where the index at hand is to be made, its k is checked: what
// fails should not leave an empty index.
func (r *references) open(indexes *indexFlags, analyzer string) error {
	for _, dir := range r.dirs {
		if indexes.dir != "" && sameFolder(dir, indexes.dir) {
			return usagef("-against %s is the index that documents are added to", dir)
		}
		x, err := index.Open(dir, &index.Options{ReadOnly: true, CacheBytes: indexes.cache << 20, Analyzer: analyzer})
		if err != nil {
			return fmt.Errorf("-against: %w", err)
		}
		r.indexes = append(r.indexes, x)
	}
	if _, err := os.Stat(indexes.dir); r.call.given("k") || err != nil {
		return r.check(indexes.k)
	}
	return nil
}

func sameFolder(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return filepath.Clean(a) == filepath.Clean(b)
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// check says whether all references can be asked for matches within k.
func (r *references) check(k int) error {
	for n, x := range r.indexes {
		if has := x.Plan().MaxDistance; has < k {
			return fmt.Errorf("-against %s: %w: it finds what is within k = %d only, documents are to be compared within %d",
				r.dirs[n], index.ErrMismatch, has, k)
		}
	}
	return nil
}

func (r *references) close() error {
	var errs []error
	for _, x := range r.indexes {
		errs = append(errs, x.Close())
	}
	return errors.Join(errs...)
}

// find gives each input its nearest match in the references. Of several at one distance it is
// that of the reference that was given first.
func (r *references) find(ctx context.Context, inputs []*input, match *matchFlags, k int) error {
	if len(r.indexes) == 0 {
		return nil
	}
	for scope, inputs := range byScope(inputs) {
		opts := append(match.options(inputs), index.MaxDistance(k), index.Limit(1), index.InScope(scope))
		for n, x := range r.indexes {
			for answer, err := range x.QueryBatch(ctx, fingerprintsOf(inputs), opts...) {
				if err != nil {
					return fmt.Errorf("-against %s: %w", r.dirs[n], err)
				}
				if len(answer.Matches) == 0 {
					continue
				}
				i, m := inputs[answer.Query], answer.Matches[0]
				if i.reference == nil || m.Distance < i.reference.Distance {
					i.reference = &referenceLine{Key: m.Key, Distance: m.Distance, Index: r.dirs[n]}
				}
			}
		}
	}
	return nil
}
