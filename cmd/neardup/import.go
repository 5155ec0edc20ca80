package main

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/neardup/neardup/cmd/neardup/corpus"
	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/index"
)

var importCommand = command{
	name:    "import",
	args:    "-index DIR [-k 3] [-analyzer NAME] INPUT...",
	summary: "load ready fingerprints in bulk: lines of fingerprint[TAB key], or 8 bytes little-endian each; the index must not be in use",
	run:     runImport,
}

func runImport(ctx context.Context, c *call) error {
	inputs := c.inputFlags()
	indexes := c.indexFlags().makingFlags(importK)
	name := c.flags.String("analyzer", "", "`name` of the analyzer that made the fingerprints, as \"info\" shows it")
	memory := c.flags.Int64("memory", 1024, "memory for sorting in `MiB`")
	if err := c.parse(); err != nil {
		return err
	}
	if inputs.format == "" {
		inputs.format = string(corpus.Fingerprints)
	}
	if f := corpus.Format(inputs.format); f != corpus.Fingerprints && f != corpus.U64LE && f != corpus.JSONL {
		return usagef("-format is %q; import reads fingerprints, u64le or jsonl", inputs.format)
	}
	if *memory < 1 {
		return usagef("-memory is %d MiB, want 1 or more", *memory)
	}
	if err := indexes.required(); err != nil {
		return err
	}
	reader, err := inputs.reader()
	if err != nil {
		return err
	}
	o, err := indexes.options(*name)
	if err != nil {
		return err
	}
	if !c.given("expect") {
		o.ExpectedDocuments = 0 // it will be known
	}
	progress, stop := c.startStages()
	report, err := compaction.Load(ctx, indexes.dir, c.fingerprints(ctx, reader), compaction.LoadOptions{
		Index:       *o,
		MemoryBytes: *memory << 20,
		Progress: func(p compaction.Progress) {
			if p.Stage != compaction.StageRead && progress != nil { // reading has a bar of its own
				progress(p)
			}
		},
	})
	stop()
	if err != nil {
		return err
	}
	c.logf("%d fingerprints stored in %.1f s; the index has %d documents", report.Loaded-min(report.Replaced, report.Loaded), report.Seconds, report.Documents)
	return nil
}

// fingerprints yields what the inputs have, without the pipeline for documents: there
// is nothing to analyze.
func (c *call) fingerprints(ctx context.Context, reader *corpus.Reader) iter.Seq2[index.Document, error] {
	return func(yield func(index.Document, error) bool) {
		stop := c.startProgress(ctx, reader)
		defer c.account(reader)
		defer stop()
		for r, err := range reader.Records(ctx) {
			if err != nil {
				yield(index.Document{}, err)
				return
			}
			if r.Skip != nil {
				if i := (&input{record: r}); r.Skip.Document {
					c.logf("%s: skipped: %s (%s)", i.key(), r.Skip, i.position())
				}
				continue
			}
			if r.Kind == corpus.HTML || r.Kind == corpus.Text {
				yield(index.Document{}, fmt.Errorf("%s: a text; import takes fingerprints only: use add", (&input{record: r}).position()))
				return
			}
			// A fingerprint without a key stays bare: it takes a few bytes, not a record.
			if !yield(index.Document{Key: strings.Clone(r.Key), Fingerprint: r.Fingerprint}, nil) {
				return
			}
		}
		if err := ctx.Err(); err != nil {
			yield(index.Document{}, err)
		}
	}
}
