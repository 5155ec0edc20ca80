package main

import (
	"context"
	"errors"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
)

var dedupCommand = command{
	name:    "dedup",
	args:    "[-index DIR] [-k 3] [-shingle 14] [-text main] [-scope host] INPUT...",
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
}

// skipped is the verdict on a document that could not be compared.
const skipped = "skipped"

func runDedup(ctx context.Context, c *call) error {
	inputs := c.inputFlags().scopeFlag().analyzerFlags()
	indexes := c.indexFlags().makingFlags()
	shingle := c.shingleFlag()
	keep := c.flags.Bool("keep-duplicates", false, "store duplicates too")
	if err := c.parse(); err != nil {
		return err
	}
	a, err := inputs.analyzer()
	if err != nil {
		return err
	}
	o, err := indexes.options(a.name)
	if err != nil {
		return err
	}
	if o.MaxShingleDistance, err = maxShingleDistance(*shingle); err != nil {
		return err
	}
	o.KeepDuplicates = *keep
	reader, err := inputs.reader() // before the index: a missing input should not make one
	if err != nil {
		return err
	}
	x, remove, err := indexes.openOrTemporary(o)
	if err != nil {
		return err
	}
	d := &dedup{index: x, inputs: inputs, lines: newLines(c.out), verdicts: make(map[string]int64)}
	err = c.eachBatch(ctx, reader, a, func(batch []*input) error { return d.check(ctx, batch) })
	if len(d.verdicts) > 0 {
		c.logf("verdicts%s", reasons(d.verdicts))
	}
	return errors.Join(err, x.Close(), remove())
}

type dedup struct {
	index    *index.Index
	inputs   *inputFlags
	lines    *lines
	verdicts map[string]int64
}

// check comes to the verdicts on a batch and prints them. When it fails part of the
// way, it prints those that hold.
func (d *dedup) check(ctx context.Context, batch []*input) error {
	verdicts, err := d.index.CheckAndAddBatch(ctx, documents(batch, d.inputs))
	for _, i := range batch {
		line, ok := skipLine(i)
		if !ok && i.skipped() == "" {
			if len(verdicts) == 0 {
				break // err says why
			}
			line, ok = lineOf(i, verdicts[0]), true
			verdicts = verdicts[1:]
		}
		if ok {
			d.verdicts[line.Verdict]++
			d.lines.write(line)
		}
	}
	return errors.Join(err, d.lines.flush())
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
		line.Of = &ofLine{v.Of.Key, v.Of.Distance}
	}
	return line
}
