package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/neardup/neardup/fingerprint"
)

var pairsCommand = command{
	name:    "pairs",
	args:    "[-k 3] [-as json|csv] -index DIR | FINGERPRINTS...",
	summary: "print every pair of near-duplicates in an index or in lists of fingerprints, once",
	more: `Equal fingerprints are one, with a count; -equal lists all pairs of documents instead.
With -compat simhash-cpp it takes the flags of simhash-find-all (-b -d -i -o) and writes
what that writes.`,
	run: runPairs,
}

func runPairs(ctx context.Context, c *call) error {
	c.in = readUntilDone(ctx, c.in)
	f := c.joinFlags()
	if err := f.parse(); err != nil {
		return err
	}
	if f.compat != "" {
		return f.compatPairs(ctx)
	}
	if f.as != "json" && f.as != "csv" {
		return usagef("-as is %q, want json or csv", f.as)
	}
	if f.memory > 0 {
		return f.pairsOutOfMemory(ctx)
	}
	var write func(a, b *member, distance int) error
	out, err := f.open()
	if err != nil {
		return err
	}
	if f.as == "csv" {
		out.csv("first", "second", "distance")
		write = func(a, b *member, distance int) error {
			return out.csv(a.name(), b.name(), fmt.Sprint(distance))
		}
	} else {
		write = func(a, b *member, distance int) error {
			out.lines.write(pairLine{a.line(), b.line(), distance})
			return out.lines.err
		}
	}
	source, err := f.source(ctx)
	if err != nil {
		return out.close(err)
	}
	p := &pairing{equal: f.equal, write: write}
	err = out.close(errors.Join(source.pairs(ctx, p.pair), source.close()))
	if err == nil {
		p.account(c)
	}
	return err
}

// pairLine is a pair in the output.
type pairLine struct {
	First    memberLine `json:"first"`
	Second   memberLine `json:"second"`
	Distance int        `json:"distance"`
}

// memberLine is the documents of a fingerprint in the output.
type memberLine struct {
	ID          uint64                  `json:"id"`
	Key         string                  `json:"key,omitempty"`
	Fingerprint fingerprint.Fingerprint `json:"fingerprint"`
	Documents   int                     `json:"documents"`
}

// pairing takes pairs of members and writes them as asked.
type pairing struct {
	equal bool // list pairs of documents
	write func(a, b *member, distance int) error

	written, equals uint64
}

// pair writes a pair; a member with itself stands for the pairs of its documents.
func (p *pairing) pair(a, b *member, distance int) error {
	same := a.ID == b.ID
	if !p.equal {
		if same {
			p.equals += uint64(a.Documents) * uint64(a.Documents-1) / 2
			return nil
		}
		p.written++
		return p.write(a, b, distance)
	}
	for first, err := range a.all() {
		if err != nil {
			return err
		}
		for second, err := range b.all() {
			if err != nil {
				return err
			}
			if same && second.ID <= first.ID {
				continue
			}
			p.written++
			if err := p.write(&first, &second, distance); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *pairing) account(c *call) {
	if p.equal {
		c.logf("%d pairs of documents", p.written)
		return
	}
	c.logf("%d pairs of distinct fingerprints; %d pairs of documents with equal ones are not listed (-equal lists them)", p.written, p.equals)
}
