package main

import (
	"context"
	"errors"

	"github.com/neardup/neardup/fingerprint"
)

var addCommand = command{
	name:    "add",
	args:    "-index DIR [-k 6] [-text main] INPUT...",
	summary: "store each document, whatever is stored already, and print its ID",
	run:     runAdd,
}

// addLine is printed for each document once it is durable.
type addLine struct {
	Key         string                  `json:"key"`
	Fingerprint fingerprint.Fingerprint `json:"fingerprint"`
	ID          uint64                  `json:"id"`
}

func runAdd(ctx context.Context, c *call) error {
	inputs := c.inputFlags().scopeFlag().analyzerFlags()
	indexes := c.indexFlags().makingFlags(defaultK)
	if err := c.parse(); err != nil {
		return err
	}
	indexes.setDefaultK(inputs)
	a, err := inputs.analyzer()
	if err != nil {
		return err
	}
	if err := indexes.required(); err != nil {
		return err
	}
	reader, err := inputs.reader() // before the index: a missing input should not make one
	if err != nil {
		return err
	}
	x, err := indexes.open(a.name)
	if err != nil {
		return err
	}
	out := newLines(c.out)
	err = c.eachBatch(ctx, reader, a, func(batch []*input) error {
		docs := documents(batch, inputs)
		if err := x.Add(ctx, docs...); err != nil {
			return err
		}
		for _, i := range batch {
			if line, skip := skipLine(i); skip {
				out.write(line)
			} else if i.skipped() == "" {
				out.write(addLine{docs[0].Key, docs[0].Fingerprint, docs[0].ID})
				docs = docs[1:]
			}
		}
		return out.flush()
	})
	return errors.Join(err, x.Close())
}
