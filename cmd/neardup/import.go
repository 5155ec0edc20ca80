package main

import (
	"context"
	"errors"

	"github.com/neardup/neardup/cmd/neardup/corpus"
	"github.com/neardup/neardup/index"
)

var importCommand = command{
	name:    "import",
	args:    "-index DIR [-k 3] [-analyzer NAME] INPUT...",
	summary: "store ready fingerprints: lines of fingerprint[TAB key], or 8 bytes little-endian each",
	run:     runImport,
}

func runImport(ctx context.Context, c *call) error {
	inputs := c.inputFlags()
	indexes := c.indexFlags().makingFlags()
	name := c.flags.String("analyzer", "", "`name` of the analyzer that made the fingerprints, as \"info\" shows it")
	if err := c.parse(); err != nil {
		return err
	}
	if inputs.format == "" {
		inputs.format = string(corpus.Fingerprints)
	}
	if f := corpus.Format(inputs.format); f != corpus.Fingerprints && f != corpus.U64LE && f != corpus.JSONL {
		return usagef("-format is %q; import reads fingerprints, u64le or jsonl", inputs.format)
	}
	if err := indexes.required(); err != nil {
		return err
	}
	reader, err := inputs.reader()
	if err != nil {
		return err
	}
	x, err := indexes.open(*name)
	if err != nil {
		return err
	}
	stored := 0
	err = c.eachBatch(ctx, reader, &analyzer{}, func(batch []*input) error {
		docs := make([]index.Document, 0, len(batch))
		for _, i := range batch {
			if line, skip := skipLine(i); skip {
				c.logf("%s: skipped: %s (%s)", line.Key, line.Reason, line.At)
			} else if i.record.Skip == nil {
				// A fingerprint without a key stays bare: it takes a few bytes, not a record.
				docs = append(docs, index.Document{Key: i.record.Key, Fingerprint: i.signature.Fingerprint})
			}
		}
		if err := x.Add(ctx, docs...); err != nil {
			return err
		}
		stored += len(docs)
		return nil
	})
	c.logf("%d fingerprints stored; the index has %d documents", stored, x.Stats().Documents)
	return errors.Join(err, x.Close())
}
