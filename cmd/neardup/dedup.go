package main

import (
	"context"
	"errors"

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
	Of          *ofLine                  `json:"of,omitempty"`
	Reason      string                   `json:"reason,omitempty"`
	At          string                   `json:"at,omitempty"` // of what is skipped: file, record, byte
}

type ofLine struct {
	Key      string `json:"key"`
	Distance int    `json:"distance"`
	Index    string `json:"index,omitempty"` // folder of the reference that has it
}

// skipped is the verdict on a document that could not be compared.
const skipped = "skipped"

func runDedup(ctx context.Context, c *call) error {
	inputs := c.inputFlags().scopeFlag().analyzerFlags()
	indexes := c.indexFlags().makingFlags(defaultK)
	match := c.matchFlags()
	against := c.againstFlag(match)
	keep := c.flags.Bool("keep-duplicates", false, "store duplicates too")
	if err := c.parse(); err != nil {
		return err
	}
	indexes.setDefaultK(inputs)
	a, err := inputs.analyzer()
	if err != nil {
		return err
	}
	o, err := indexes.options(a.name)
	if err != nil {
		return err
	}
	if err := match.check(); err != nil {
		return err
	}
	match.setOptions(o)
	o.KeepDuplicates = *keep
	reader, err := inputs.reader() // before the index: a missing input should not make one
	if err != nil {
		return err
	}
	if err := against.open(indexes, a.name); err != nil {
		return errors.Join(err, against.close())
	}
	x, remove, err := indexes.openOrTemporary(o)
	if err != nil {
		return errors.Join(err, against.close())
	}
	d := &dedup{index: x, against: against, keep: *keep, inputs: inputs, lines: newLines(c.out), verdicts: make(map[string]int64)}
	if err = against.setDistance(x.Plan().MaxDistance); err == nil {
		err = c.eachBatch(ctx, reader, a, func(batch []*input) error { return d.check(ctx, batch) })
	}
	if len(d.verdicts) > 0 {
		c.logf("verdicts%s", reasons(d.verdicts))
	}
	return errors.Join(err, x.Close(), remove(), against.close())
}

type dedup struct {
	index    *index.Index
	against  *references
	keep     bool // duplicates are stored too
	inputs   *inputFlags
	lines    *lines
	verdicts map[string]int64
}

// check comes to the verdicts on a batch and prints them. When it fails part of the
// way, it prints those that hold.
func (d *dedup) check(ctx context.Context, batch []*input) error {
	docs := documents(batch, d.inputs)
	references, err := d.against.nearest(ctx, docs)
	if err != nil {
		return err
	}
	verdicts, err := d.index.CheckAndAddBatch(ctx, d.left(docs, references))
	for _, i := range batch {
		line, ok := skipLine(i)
		if !ok && i.skipped() == "" {
			of := references[0]
			references = references[1:]
			if len(verdicts) == 0 && (of == nil || d.keep) {
				break // err says why
			}
			line, ok = verdictLine{Key: i.key(), Fingerprint: &i.signature.Fingerprint, Verdict: index.Duplicate.String(), Of: of}, true
			if of == nil {
				line = lineOf(i, verdicts[0])
			}
			if of == nil || d.keep {
				verdicts = verdicts[1:]
			}
		}
		if ok {
			d.verdicts[line.Verdict]++
			d.lines.write(line)
		}
	}
	return errors.Join(err, d.lines.flush())
}

// left returns the documents that go on to the index: those that no reference has, or
// all if duplicates are stored.
func (d *dedup) left(docs []index.Document, references []*ofLine) []index.Document {
	if len(d.against.indexes) == 0 || d.keep {
		return docs
	}
	var left []index.Document
	for i, of := range references {
		if of == nil {
			left = append(left, docs[i])
		}
	}
	return left
}

// skipLine returns the line of a document that could not be compared. A record that
// is no document by its nature has none: it is only counted.
func skipLine(i *input) (verdictLine, bool) {
	reason := i.skipped()
	if reason == "" || i.record.Skip != nil && !i.record.Skip.Document {
		return verdictLine{}, false
	}
	return verdictLine{Key: i.key(), Verdict: skipped, Reason: reason, At: i.position()}, true
}

func lineOf(i *input, v index.Verdict) verdictLine {
	line := verdictLine{Key: i.key(), Fingerprint: &i.signature.Fingerprint, Verdict: v.Status.String()}
	if v.Status == index.Duplicate {
		line.Of = &ofLine{Key: v.Of.Key, Distance: v.Of.Distance}
	}
	return line
}
