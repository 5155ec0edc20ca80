package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/neardup/neardup"
	"github.com/neardup/neardup/index"
)

var dedupCommand = command{
	name:    "dedup",
	args:    "[-index DIR] [-k 6] [-max-shingle-distance 13] [-text main] [-scope host] INPUT...",
	summary: "check each document against those stored, store it if it is new, and print the verdict",
	run:     runDedup,
}

func runDedup(ctx context.Context, c *call) (err error) {
	inputs := c.inputFlags().scopeFlag().analyzerFlags()
	indexes := c.indexFlags().makingFlags(defaultK)
	match := c.matchFlags()
	references := c.againstFlag()
	keep := c.flags.Bool("keep-duplicates", false, "store duplicates too")
	if err := c.parse(); err != nil {
		return err
	}
	docs, err := inputs.openInputs()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, references.close()) }()
	indexes.match = match
	if err := references.open(indexes, docs.analyzer); err != nil {
		return err
	}
	o, err := indexes.options(docs.analyzer.asked, docs.analyzer.bare)
	if err != nil {
		return err
	}
	o.Index.KeepDuplicates, o.Index.MaxShingleDistance, o.Index.MaxLengthRatio = *keep, match.shingle, match.ratio
	x, remove, err := indexes.openOrTemporary(o, references.check)
	if err != nil {
		return err
	}
	docs.analyzer.Signer, docs.pages = x.Signer(), x.Plan()
	d := &dedup{index: x, references: references, keep: *keep, lines: newLines(c.out), summary: newSummary()}
	err = docs.forEachBatch(ctx, maxBatch, 0, func(batch []*input) error { return d.check(ctx, batch) })
	next := ""
	if err == nil {
		next = indexes.next(x.Stats())
	}
	d.summary.write(c, next)
	return errors.Join(err, x.Close(), remove())
}

type dedup struct {
	index      *neardup.Index
	references *references
	keep       bool // duplicates are stored too
	lines      *lines
	summary    *summary
}

// check comes to the verdicts on a batch and prints them. When it fails part of the
// way, it prints those that hold.
func (d *dedup) check(ctx context.Context, batch []*input) error {
	inputs := compared(batch)
	if err := d.references.find(ctx, inputs, distanceOption(d.index.Plan().MaxDistance)); err != nil {
		return err
	}
	var left []*input // that no reference has, or all if duplicates are stored
	for _, i := range inputs {
		if i.of == nil || d.keep {
			left = append(left, i)
		} else {
			i.decide(neardup.Duplicate, i.of)
		}
	}
	verdicts, err := d.index.CheckDocuments(ctx, documents(left))
	for n, v := range verdicts {
		i := left[n]
		switch {
		case i.of != nil:
			i.decide(neardup.Duplicate, i.of)
		case v.Status == neardup.New:
			i.decide(v.Status, nil)
		default:
			i.decide(v.Status, &referenceLine{Key: v.Of.Key, Distance: v.Of.Distance})
		}
	}
	rest := d.lines.writeReady(batch) // if there is one, err says why
	if unwritten := d.lines.flush(); unwritten != nil {
		return errors.Join(err, unwritten)
	}
	for _, i := range batch[:len(batch)-len(rest)] {
		d.summary.add(i)
	}
	return err
}

func (i *input) decide(status neardup.Status, of *referenceLine) {
	i.verdict, i.of = status.String(), of
	i.line = &verdictLine{Key: i.document.Key, Fingerprint: &i.document.Fingerprint, Verdict: i.verdict, Of: of}
}

// next says what to do after dedup.
func (f *indexFlags) next(s index.Stats) string {
	switch {
	case f.temporary:
		return "give -index DIR, and later runs compare with these documents too"
	case s.Live > 1<<20 && s.Live > s.Packed/4:
		return fmt.Sprintf("\"neardup compact -index %s\" makes queries faster and the index smaller", f.dir)
	}
	return fmt.Sprintf("\"neardup dedup -index %s\" compares more with the %d documents that are stored; \"neardup query\" asks only", f.dir, s.Documents)
}

// references are indexes that documents are compared with and that nothing is added to.
type references struct {
	call    *call
	dirs    []string
	indexes []*neardup.Index // of dirs
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

// open opens the references. Where no flags ask for an analyzer, it is theirs.
func (r *references) open(indexes *indexFlags, a *analyzer) error {
	for _, dir := range r.dirs {
		if indexes.dir != "" && sameFolder(dir, indexes.dir) {
			return usagef("-against %s is the index that documents are added to", dir)
		}
		x, err := indexes.openToCompare(dir, a.asked, a.bare)
		if err != nil {
			return fmt.Errorf("-against: %w", err)
		}
		r.indexes = append(r.indexes, x)
		if !a.bare {
			a.asked = x.Stats().Analyzer
		}
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
func (r *references) find(ctx context.Context, inputs []*input, k int) error {
	for n, x := range r.indexes {
		err := query(ctx, x.Index, inputs, k, 1, func(i *input, matches []index.Match) {
			if len(matches) > 0 && (i.of == nil || matches[0].Distance < i.of.Distance) {
				i.of = &referenceLine{Key: matches[0].Key, Distance: matches[0].Distance, Index: r.dirs[n]}
			}
		})
		if err != nil {
			return fmt.Errorf("-against %s: %w", r.dirs[n], err)
		}
	}
	return nil
}

// summary is what dedup came to, in numbers that add up: every record has a verdict, or is
// skipped for a reason.
type summary struct {
	records  int64
	compared int64
	verdicts map[string]int64
	skips    map[string]int64 // by reason
	groups   groups
}

func newSummary() *summary {
	return &summary{verdicts: make(map[string]int64), skips: make(map[string]int64), groups: groups{n: make(map[string]int64)}}
}

// maxSkipReasons bounds the reasons that are told apart: content types are of the inputs' making.
const maxSkipReasons = 50

// add counts a record whose line is written.
func (s *summary) add(i *input) {
	s.records++
	if i.compared {
		s.compared++
		s.verdicts[i.verdict]++
		if i.verdict == neardup.Duplicate.String() {
			s.groups.add(i.of.Key)
		}
		return
	}
	s.verdicts[skipped]++
	reason := i.reason
	if s.skips[reason] == 0 && len(s.skips) >= maxSkipReasons {
		reason = "other reasons"
	}
	s.skips[reason]++
}

// write says it on standard error, where there was anything.
func (s *summary) write(c *call, next string) {
	if s.records == 0 {
		return
	}
	counts := make([]string, 0, len(s.verdicts))
	for _, verdict := range slices.SortedFunc(maps.Keys(s.verdicts), byCount(s.verdicts)) {
		counts = append(counts, fmt.Sprintf("%d %s", s.verdicts[verdict], verdict))
	}
	c.logf("%d records: %s%s", s.records, strings.Join(counts, ", "), reasons(s.skips))
	if duplicates := s.verdicts[neardup.Duplicate.String()]; duplicates > 0 {
		c.logf("%.1f %% of the %d documents compared are duplicates; most are near to", 100*float64(duplicates)/float64(s.compared), s.compared)
		for _, line := range s.groups.largest() {
			c.logf("  %s", line)
		}
	}
	if next != "" {
		c.logf("next: %s", next)
	}
}

// groups counts duplicates by the document that they are near to, as Misra and Gries do: of so
// many that memory is bounded, all counts go down by one to make room, and are least ones then.
type groups struct {
	n       map[string]int64
	lowered bool
}

const (
	maxGroups   = 10_000
	groupsShown = 3
)

func (g *groups) add(key string) {
	if g.n[key] > 0 || len(g.n) < maxGroups {
		g.n[key]++
		return
	}
	g.lowered = true
	for key := range g.n {
		if g.n[key]--; g.n[key] == 0 {
			delete(g.n, key)
		}
	}
}

// largest is a line for each of the largest groups.
func (g *groups) largest() (lines []string) {
	atLeast := ""
	if g.lowered {
		atLeast = "at least "
	}
	for _, key := range slices.SortedFunc(maps.Keys(g.n), byCount(g.n)) {
		if len(lines) == groupsShown {
			break
		}
		lines = append(lines, fmt.Sprintf("%s (%s%d)", key, atLeast, g.n[key]))
	}
	return lines
}

// byCount orders names, the most frequent first.
func byCount(counts map[string]int64) func(a, b string) int {
	return func(a, b string) int { return cmp.Or(cmp.Compare(counts[b], counts[a]), strings.Compare(a, b)) }
}
