package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"

	"github.com/neardup/neardup/cmd/neardup/internal/corpus"
	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
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
	indexes := c.requiredIndexFlags().makingFlags(defaultK)
	if err := c.parse(); err != nil {
		return err
	}
	docs, err := inputs.openInputs()
	if err != nil {
		return err
	}
	o, err := indexes.options(docs.analyzer.asked, docs.analyzer.bare)
	if err != nil {
		return err
	}
	x, err := indexes.openOrMake(o, func(int) error { return nil })
	if err != nil {
		return err
	}
	docs.analyzer.Signer = x.Signer()
	out := newLines(c.out)
	err = docs.forEachBatch(ctx, maxBatch, 0, func(batch []*input) error {
		inputs := compared(batch)
		stored := documents(inputs)
		if err := x.Add(ctx, stored...); err != nil {
			return err
		}
		for n, i := range inputs {
			i.line = addLine{stored[n].Key, stored[n].Fingerprint, stored[n].ID}
		}
		out.writeReady(batch)
		return out.flush()
	})
	return errors.Join(err, x.Close())
}

var fingerprintCommand = command{
	name:    "fingerprint",
	args:    "INPUT...",
	summary: "print the fingerprint of each document: 16 hex digits, a tab, the key",
	more:    quotedKeys + `"neardup import" reads it back.`,
	run:     runFingerprint,
}

func runFingerprint(ctx context.Context, c *call) error {
	inputs := c.inputFlags().analyzerFlags()
	if err := c.parse(); err != nil {
		return err
	}
	docs, err := inputs.openInputs()
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(c.out, 64<<10)
	return docs.forEachBatch(ctx, maxBatch, 0, func(batch []*input) error {
		for _, i := range batch {
			if i.compared {
				writeDocument(out, &i.document, "fingerprints") // its errors stick
			} else if skip, ok := i.line.(*verdictLine); ok {
				c.logf("%s: skipped: %s (%s)", skip.Key, skip.Reason, skip.At)
			}
		}
		return out.Flush()
	})
}

var importCommand = command{
	name:        "import",
	args:        "-index DIR [-k 3] [-analyzer NAME] INPUT...",
	summary:     "load ready fingerprints in bulk: lines of fingerprint[TAB key], 8 bytes little-endian each (files named .u64le), JSON lines (.jsonl), or whole indexes, as \"export -format jsonl\" prints them; the index must not be in use",
	interrupted: "nothing was stored",
	run:         runImport,
}

func runImport(ctx context.Context, c *call) error {
	inputs := c.inputFlags()
	indexes := c.requiredIndexFlags().makingFlags(importK)
	name := c.flags.String("analyzer", "", "`name` of the analyzer that made the fingerprints, as \"stats\" shows it")
	memory := c.mebibytesFlag("memory", 1024, "memory for sorting in `MiB`")
	if err := c.parse(); err != nil {
		return err
	}
	exports, err := inputs.exportsAmong(ctx)
	if err != nil {
		return err
	}
	if len(exports) > 0 && *name != "" && *name != exports[0].Analyzer {
		return usagef("-analyzer is %q, but the fingerprints are of %q", *name, exports[0].Analyzer)
	} else if len(exports) > 0 {
		*name = exports[0].Analyzer
	}
	o, err := indexes.options(*name, *name == "")
	if err != nil {
		return err
	}
	docs := c.exportedDocuments(exports)
	switch {
	case len(exports) == 0:
		reader, err := inputs.listReader(c.args)
		if err != nil {
			return err
		}
		docs = c.fingerprints(ctx, reader)
	case o.Index.MaxDistance == 0 && o.Index.Plan == nil && !indexes.exist():
		o.Index.MaxDistance = distanceOption(exports[0].MaxDistance)
	}
	if !c.given("expected-documents") {
		o.Index.ExpectedDocuments = 0 // it will be known
	}
	bar := c.newProgressBar(false)
	report, err := compaction.Load(ctx, indexes.dir, docs, compaction.LoadOptions{
		KeepAdded:   len(exports) > 0,
		Index:       o.Index,
		MemoryBytes: memory.bytes(),
		Progress: func(p compaction.Progress) {
			if p.Stage != compaction.StageRead || len(exports) > 0 { // reading a list has a bar of its own
				bar.compaction(p)
			}
		},
	})
	bar.stop()
	if err != nil {
		return err
	}
	c.logf("%d fingerprints stored in %.1f s; the index has %d documents", report.Loaded-min(report.Replaced, report.Loaded), report.Seconds, report.Documents)
	return nil
}

// fingerprints yields the documents of lists.
func (c *call) fingerprints(ctx context.Context, reader *corpus.Reader) iter.Seq2[index.Document, error] {
	c.inputs = true
	return func(yield func(index.Document, error) bool) {
		for chunk, err := range c.chunks(ctx, reader, false) {
			if err != nil {
				yield(index.Document{}, err)
				return
			}
			for i, fp := range chunk.Fingerprints {
				// A fingerprint without a key stays bare: it takes a few bytes, not a record.
				if !yield(index.Document{Key: chunk.Key(i), Fingerprint: fp}, nil) {
					return
				}
			}
		}
	}
}

var exportCommand = command{
	name:    "export",
	args:    "-index DIR [-format jsonl]",
	summary: "print every stored document: all there is to know of it as JSON lines; or its fingerprint, 16 hex digits and, after a tab, the key if there is one",
	more:    quotedKeys + `"neardup import" reads it back; of -format jsonl, with all that decides what matches.`,
	run:     runExport,
}

func runExport(ctx context.Context, c *call) error {
	indexes := c.requiredIndexFlags()
	format := c.choiceFlag("format", "`format`: fingerprints; jsonl, with all there is to know; or u64le, 8 bytes little-endian each", "fingerprints", "jsonl", "u64le")
	if err := c.parseFlags(); err != nil {
		return err
	}
	if *format == "jsonl" {
		return indexes.read(func(x *index.Index) error { return exportDocuments(ctx, x, c.out) })
	}
	out, lossy := bufio.NewWriterSize(c.out, 64<<10), 0
	return indexes.read(func(x *index.Index) error {
		for d, err := range x.Documents(ctx) {
			if err == nil {
				err = writeDocument(out, &d, *format)
			}
			if err != nil {
				return errors.Join(err, out.Flush())
			}
			if d.Shingle != 0 || d.Tokens != 0 || d.Scope != "" || d.Key != "" && *format == "u64le" {
				lossy++
			}
		}
		if lossy > 0 {
			c.logf("of %d documents, -format %s leaves out a second fingerprint, a length, a scope or a key: what is made of it has other matches; -format jsonl has all", lossy, *format)
		}
		return out.Flush()
	})
}

func writeDocument(w *bufio.Writer, d *index.Document, format string) (err error) {
	switch {
	case format == "u64le":
		return binary.Write(w, binary.LittleEndian, uint64(d.Fingerprint))
	case d.Key == "":
		_, err = fmt.Fprintf(w, "%s\n", d.Fingerprint)
	default:
		_, err = fmt.Fprintf(w, "%s\t%s\n", d.Fingerprint, corpus.QuoteKey(d.Key))
	}
	return err
}
