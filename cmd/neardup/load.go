package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"

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
	indexes := c.indexFlags().makingFlags(defaultK)
	if err := c.parse(); err != nil {
		return err
	}
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
	o, err := indexes.options(a)
	if err != nil {
		return err
	}
	x, err := indexes.openOrMake(o)
	if err != nil {
		return err
	}
	out := newLines(c.out)
	err = c.forEachBatch(ctx, reader, a, maxBatch, 0, func(batch []*input) error {
		docs := documents(compared(batch))
		if err := x.Add(ctx, docs...); err != nil {
			return err
		}
		for _, i := range batch {
			if line, skip := skipLine(i); skip {
				out.write(line)
			} else if i.skipped == "" {
				out.write(addLine{docs[0].Key, docs[0].Fingerprint, docs[0].ID})
				docs = docs[1:]
			}
		}
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
	a, err := inputs.analyzer()
	if err != nil {
		return err
	}
	reader, err := inputs.reader()
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(c.out, 64<<10)
	return c.forEachBatch(ctx, reader, a, maxBatch, 0, func(batch []*input) error {
		for _, i := range batch {
			if line, skip := skipLine(i); skip {
				c.logf("%s: skipped: %s (%s)", line.Key, line.Reason, line.At)
			} else if i.skipped == "" {
				fmt.Fprintf(out, "%s\t%s\n", i.document.Fingerprint, corpus.QuoteKey(i.document.Key))
			}
		}
		return out.Flush()
	})
}

var importCommand = command{
	name:    "import",
	args:    "-index DIR [-k 3] [-analyzer NAME] INPUT...",
	summary: "load ready fingerprints in bulk: lines of fingerprint[TAB key], 8 bytes little-endian each (files named .u64le) or JSON lines (.jsonl); the index must not be in use",
	run:     runImport,
}

func runImport(ctx context.Context, c *call) error {
	inputs := c.inputFlags()
	indexes := c.indexFlags().makingFlags(importK)
	name := c.flags.String("analyzer", "", "`name` of the analyzer that made the fingerprints, as \"stats\" shows it")
	memory := c.memoryFlag(1024, "memory for sorting in `MiB`")
	if err := c.parse(); err != nil {
		return err
	}
	if err := memory.check(); err != nil {
		return err
	}
	if err := indexes.required(); err != nil {
		return err
	}
	reader, err := inputs.listReader(c.args)
	if err != nil {
		return err
	}
	o, err := indexes.options(&analyzer{name: *name})
	if err != nil {
		return err
	}
	if !c.given("expected-documents") {
		o.ExpectedDocuments = 0 // it will be known
	}
	bar := c.newProgressBar(false)
	report, err := compaction.Load(ctx, indexes.dir, c.fingerprints(ctx, reader), compaction.LoadOptions{
		Index:       *o,
		MemoryBytes: memory.bytes(),
		Progress: func(p compaction.Progress) {
			if p.Stage != compaction.StageRead { // reading has a bar of its own
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

var exportCommand = command{
	name:    "export",
	args:    "-index DIR [-format u64le]",
	summary: "print every stored fingerprint: 16 hex digits and, after a tab, the key if there is one",
	more:    quotedKeys + `"neardup import" reads it back.`,
	run:     runExport,
}

func runExport(ctx context.Context, c *call) error {
	indexes := c.indexFlags()
	format := c.flags.String("format", "fingerprints", "`format`: fingerprints, or u64le, 8 bytes little-endian each")
	if err := c.parseFlags(); err != nil {
		return err
	}
	write := writeLine
	switch corpus.Format(*format) {
	case corpus.Fingerprints:
	case corpus.U64LE:
		write = writeBytes
	default:
		return usagef("-format is %q, want fingerprints or u64le", *format)
	}
	x, err := indexes.openReadOnly("")
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(c.out, 64<<10)
	for d, docErr := range x.Documents(ctx) {
		if err = docErr; err == nil {
			err = write(out, &d)
		}
		if err != nil {
			break
		}
	}
	return errors.Join(err, out.Flush(), x.Close())
}

func writeLine(w *bufio.Writer, d *index.Document) (err error) {
	if d.Key == "" {
		_, err = fmt.Fprintf(w, "%s\n", d.Fingerprint)
	} else {
		_, err = fmt.Fprintf(w, "%s\t%s\n", d.Fingerprint, corpus.QuoteKey(d.Key))
	}
	return err
}

func writeBytes(w *bufio.Writer, d *index.Document) error {
	return binary.Write(w, binary.LittleEndian, uint64(d.Fingerprint))
}
