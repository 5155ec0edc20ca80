package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/neardup/neardup"
	"github.com/neardup/neardup/cmd/neardup/internal/corpus"
	"github.com/neardup/neardup/cmd/neardup/internal/documents"
	"github.com/neardup/neardup/cmd/neardup/internal/original"
	"github.com/neardup/neardup/cmd/neardup/internal/summary"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/check"
	"github.com/neardup/neardup/internal/match"
	"github.com/spf13/cobra"
)

func dedupCommand(a *app) *cobra.Command {
	c := a.command(&cobra.Command{
		Use:   "dedup [flags] INPUT...",
		Short: "Check documents, store the new ones, and print a verdict on each document",
		Long: `Check each document against the stored documents and store it if it is new. The
verdict on a document is new, changed (the stored document with its key has
another text), unchanged, duplicate (of the stored document that "of" names) or
skipped.

Inputs are files or directories: web archives (WARC, WET, WACZ), JSON, JSON
Lines, HTML or text, also compressed or in archives. - is standard input.

With --emit new, the records of new and changed documents are printed as they
are in the inputs. All inputs must have the same format: JSON Lines or a web
archive. warcinfo records are printed too, but no other records that are not
documents. A record is printed after its verdict is durable.`,
		Example: `  neardup dedup --index crawl.index pages.warc.gz
  neardup dedup --index crawl.index --emit new --output kept.warc.gz pages.warc.gz
  neardup dedup --report report.html crawl/`,
	})
	inputs := c.inputFlags(documentFormats...).fieldFlags().scopeFlag().analyzerFlags()
	d := &dedup{
		call: c,
		indexes: c.indexFlag().cacheFlag().distanceFlag(defaultK).retentionFlags().
			matchFlags(),
		emission: c.emitFlags(inputs), report: c.reportFlag(inputs),
	}
	c.sizeFlag(&inputs.MaxDocument, "max-document-size", "16MiB", 1<<20,
		"skip documents larger than this `size`")
	c.flags.BoolVar(&inputs.noKeys, "no-keys", false,
		"store documents without their keys: no document replaces an earlier one")
	c.cmd.MarkFlagsMutuallyExclusive("no-keys", "key-field")
	c.flags.BoolVar(&d.indexes.opts.Index.KeepDuplicates, "keep-duplicates", false,
		"store duplicates too")
	return c.runs(func(ctx context.Context) error {
		docs, err := inputs.openInputs()
		if err != nil {
			return err
		}
		if err := d.report.open(d.emission.file); err != nil {
			return err
		}
		return d.emission.open(ctx, docs.Reader.Reader, func() error { return d.run(ctx, docs) })
	})
}

type dedup struct {
	call     *call
	indexes  *indexFlags
	emission *emission
	summary  *summary.Summary // of the documentReader
	report   *report

	temporary bool // without --index
	index     *neardup.Index
	rule      match.Rule // of index
	lines     lines
}

func (d *dedup) run(ctx context.Context, docs *documentReader) (err error) {
	o := d.indexes.options(docs.asked, docs.bare)
	if d.indexes.dir == "" {
		if d.indexes.dir, err = os.MkdirTemp("", "neardup-"); err != nil {
			return fmt.Errorf("temporary index: %w; set --index, or another TMPDIR", err)
		}
		defer func() { err = errors.Join(err, os.RemoveAll(d.indexes.dir)) }()
		d.call.logf("without --index, the index is temporary: it is removed after this run")
		d.temporary, o.Index.Durability = true, index.NoSync
	}
	if d.emission.wanted && !d.temporary {
		d.call.again = "restore the index to its state before this run, then run again"
	}
	absent := d.indexes.absent()
	d.index, err = neardup.Open(d.indexes.dir, o)
	if errors.Is(err, index.ErrMismatch) && docs.asked == "" { // the index may be bare
		o.Bare = true
		d.index, err = neardup.Open(d.indexes.dir, o)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.index.Close()) }()
	if absent && !d.temporary { // shows that a misspelled name has created an index
		d.call.logf("created index %s", d.indexes.dir)
	}
	docs.Analyzer.Use(d.index)
	d.rule = d.indexes.rule(d.index.Plan().MaxDistance)
	d.lines, d.summary = newLines(d.emission.verdicts()), docs.Summary
	d.summary.Verdicts = make(map[string]int64)
	err = docs.forEachBatch(ctx, writeBatches, func(batch []*documents.Input) error {
		return d.check(ctx, batch)
	})
	if err == nil {
		// the run may have ended before the expiry in the background
		_, err = d.index.Expire(ctx, d.indexes.opts.Compaction.Expiry)
	}
	if err != nil {
		return err
	}
	if n := d.index.Stats().Expired; n > 0 {
		d.call.logf("%d documents were deleted from the index by the retention limits", n)
	}
	if crowded := d.index.Stats().Crowded; crowded != "" {
		d.call.logf("warning: %s", crowded)
	}
	return d.report.write(ctx, d, docs.Analyzer)
}

// check decides the verdicts on a batch and prints them. After an error, it prints only the
// verdicts that are durable.
func (d *dedup) check(ctx context.Context, batch []*documents.Input) error {
	inputs := compared(batch)
	docs := make([]index.Document, len(inputs))
	for n, i := range inputs {
		docs[n] = i.Document
	}
	found, err := d.index.CheckAndAddBatch(ctx, docs)
	for n := range found {
		inputs[n].Decide(found[n].Document.ID, check.Verdict(d.rule, &found[n]))
	}
	rest := d.lines.writeReady(batch) // not empty only if err is not nil
	if unwritten := d.emission.write(batch[:len(batch)-len(rest)]); unwritten != nil {
		return errors.Join(err, unwritten)
	}
	if unwritten := d.lines.flush(batch, rest); unwritten != nil {
		return errors.Join(err, unwritten)
	}
	for _, i := range batch[:len(batch)-len(rest)] {
		if i.Compared {
			d.report.add(i)
		}
	}
	return err
}

// emission writes the records of --emit as they are in the inputs.
type emission struct {
	call    *call
	file    string
	wanted  bool             // --emit is given
	records *original.Writer // nil if it is not open
}

func (c *call) emitFlags(inputs *inputFlags) *emission {
	e := &emission{call: c}
	what := c.choiceFlag("emit", "print the records of `new` and changed documents, as they are "+
		"in the inputs, instead of verdicts", "", "new")
	c.flags.StringVarP(&e.file, "output", "o", "-",
		"`file` for the records of --emit; the verdicts then go to standard output")
	c.check(func() error {
		if *what == "" {
			if c.given("output") {
				return usagef("--output requires --emit new")
			}
			return nil
		}
		e.wanted, inputs.Originals = true, true
		formats := corpus.OriginalFormats
		if f := inputs.Format; f != corpus.Detect && !slices.Contains(formats, f) {
			return usagef("--format is %s, but --emit requires %s", f, orList(formats))
		}
		return nil
	})
	return e
}

// open opens the output of records and calls do. It returns an error if the output is also an
// input, or if the records of an input cannot be emitted.
func (e *emission) open(ctx context.Context, inputs *corpus.Reader, do func() error) error {
	if !e.wanted {
		return do()
	}
	err := e.call.writeTo(e.file, func(output os.FileInfo) error {
		return inputs.CheckOriginals(ctx, output)
	}, func(out *bufio.Writer) error {
		e.records = original.NewWriter(out)
		return do()
	})
	if errors.Is(err, corpus.ErrNoOriginals) {
		err = fmt.Errorf("%w; name inputs of one format: %s", err, orList(corpus.OriginalFormats))
	}
	return err
}

// verdicts returns the output for verdicts.
func (e *emission) verdicts() io.Writer {
	if e.records != nil && e.file == "-" {
		return io.Discard
	}
	return e.call.out
}

// write writes the records of a batch.
func (e *emission) write(batch []*documents.Input) error {
	if e.records == nil {
		return nil
	}
	for _, i := range batch {
		switch o := i.Record.Original; {
		case o == nil || !i.Compared && i.Record.Skip == nil: // such as a document without text
		case !i.Compared || i.Verdict == neardup.New.String() ||
			i.Verdict == neardup.Changed.String():
			e.records.Write(o)
		}
	}
	return e.records.Flush()
}

// sameFile reports whether two paths name the same file, which need not exist.
func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return filepath.Clean(a) == filepath.Clean(b)
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}
