package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"iter"

	"github.com/neardup/neardup/cmd/neardup/internal/corpus"
	"github.com/neardup/neardup/cmd/neardup/internal/documents"
	"github.com/neardup/neardup/cmd/neardup/internal/export"
	"github.com/neardup/neardup/cmd/neardup/internal/summary"
	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/match"
	"github.com/spf13/cobra"
)

func fingerprintCommand(a *app) *cobra.Command {
	c := a.command(&cobra.Command{
		Use:   "fingerprint [flags] INPUT...",
		Short: "Print the fingerprints of documents",
		Long: `Print a line per document: the fingerprint (16 hex digits), a tab and the key.
import reads these lines.

` + quotedKeys,
		Example: `  neardup fingerprint page.html
  neardup fingerprint pages.warc.gz | neardup import --index ix -`,
	})
	inputs := (&inputFlags{call: c}).fieldFlags().analyzerFlags()
	return c.runs(func(ctx context.Context) error {
		docs, err := inputs.openInputs()
		if err != nil {
			return err
		}
		out := bufio.NewWriterSize(c.out, 64<<10)
		return docs.forEachBatch(ctx, writeBatches, func(batch []*documents.Input) error {
			for _, i := range batch {
				if i.Compared {
					out.WriteString(i.Document.Fingerprint.String()) // Flush returns its errors
					if i.Key != "" {
						out.WriteString("\t" + corpus.QuoteKey(i.Key))
					}
					out.WriteByte('\n')
				} else if skip, ok := i.Line.(*documents.Line); ok {
					c.logf("%s: skipped: %s (%s)", summary.Shortened(i.Name()), skip.Reason,
						skip.At)
				}
			}
			return out.Flush()
		})
	})
}

func importCommand(a *app) *cobra.Command {
	c := a.command(&cobra.Command{
		Use:   "import --index DIR [flags] INPUT...",
		Short: "Load fingerprints or exported documents in bulk",
		Long: `Load documents in bulk into an index that no other process has open: one export
of an index, or lists of fingerprints. A list has lines with a fingerprint, a
tab and a key, or 8 bytes little-endian per fingerprint (files named .u64le), or
JSON Lines.

` + quotedKeys,
		Example: `  neardup export --index old | neardup import --index new -
  neardup import --index ix --max-distance 3 fingerprints.txt.gz`,
	})
	c.interrupted = "nothing was stored"
	inputs := c.inputFlags(listFormats...)
	inputs.keyFieldFlag()
	indexes := c.requiredIndexFlag().distanceFlag(importK)
	return c.runs(func(ctx context.Context) error {
		if inputs.Format == corpus.Detect || inputs.Format == corpus.JSONL {
			first, in, err := export.Find(ctx, c.args, c.in)
			if err != nil {
				return err
			}
			if inputs.Opened = in; in["-"] != nil {
				c.in = in["-"]
			}
			if first != nil {
				return c.importExport(ctx, indexes, inputs, first)
			}
		}
		docs, err := inputs.listedDocuments(ctx)
		if err != nil {
			return err
		}
		return c.load(ctx, indexes, docs,
			compaction.LoadOptions{Index: indexes.options("", true).Index})
	})
}

// importExport loads the export of an index. A new index gets the k of the export.
func (c *call) importExport(
	ctx context.Context, indexes *indexFlags, inputs *inputFlags, first *export.Index,
) error {
	name := c.args[0]
	if len(c.args) > 1 {
		return usagef("one of the inputs is the export of an index: import it without other inputs")
	}
	o := compaction.LoadOptions{KeepAdded: true,
		Index: indexes.options(first.Analyzer, false).Index}
	if !c.given("max-distance") && !indexes.exist() {
		o.Index.MaxDistance = cmp.Or(first.MaxDistance, index.Exact)
	}
	path, pipe := name, inputs.Opened[name]
	if pipe != nil {
		path = "-"
	}
	in, err := corpus.Open(path, pipe)
	if err != nil {
		return err
	}
	defer in.Close()
	return c.load(ctx, indexes, func(yield func(index.Document, error) bool) {
		for d, err := range export.Documents(in, first.Documents) {
			if err != nil {
				err = fmt.Errorf("%w: %s: %w", corpus.ErrBroken, name, err)
			}
			if !yield(d, err) || err != nil {
				return
			}
		}
	}, o)
}

// load loads documents into a closed index.
func (c *call) load(
	ctx context.Context, indexes *indexFlags, docs iter.Seq2[index.Document, error],
	o compaction.LoadOptions,
) error {
	absent := indexes.absent()
	show, stop := c.compaction()
	o.Progress = func(p compaction.Progress) {
		if p.Stage != compaction.StageRead || o.KeepAdded { // lists have another bar for reading
			show(p)
		}
	}
	report, err := compaction.Load(ctx, indexes.dir, docs, o)
	stop()
	if absent && !indexes.absent() { // also after an error, since the next import uses its k
		c.logf("created index %s", indexes.dir)
	}
	if err != nil {
		return err
	}
	replaced := ""
	if report.Replaced > 0 {
		replaced = fmt.Sprintf(", %d documents replaced by later documents with their keys",
			report.Replaced)
	}
	c.logf("%s stored%s in %.1f s; the index has %s",
		summary.Plural(int64(report.Loaded), "fingerprint"), replaced, report.Seconds,
		summary.Plural(int64(report.Documents), "document"))
	return nil
}

// listedDocuments yields the documents of lists. A document without a key is stored without a
// record.
func (f *inputFlags) listedDocuments(
	ctx context.Context,
) (iter.Seq2[index.Document, error], error) {
	reader, err := f.readerOf(f.call.args...)
	f.call.inputs = true
	return func(yield func(index.Document, error) bool) {
		for chunk, err := range f.call.chunks(ctx, reader) {
			if err != nil {
				yield(index.Document{}, err)
				return
			}
			for i, fp := range chunk.Fingerprints {
				d := index.Document{Key: chunk.Key(i), Fingerprint: fp}
				err := match.Validate(&d)
				if err != nil {
					err = fmt.Errorf("%s line %d: %w", chunk.Source, chunk.Number(i), err)
				}
				if !yield(d, err) || err != nil {
					return
				}
			}
		}
	}, err
}

func exportCommand(a *app) *cobra.Command {
	c := a.command(&cobra.Command{
		Use:   "export --index DIR",
		Short: "Print every stored document; import creates an equal index from the output",
		Long:  `Print every stored document as a JSON line. The first line describes the index.`,
		Example: `  neardup export --index ix | zstd > ix.jsonl.zst
  neardup export --index ix | jq -r 'select(.key) | "\(.fingerprint)\t\(.key)"'`,
		Args: noArgs,
	})
	indexes := c.requiredIndexFlag()
	return c.runs(func(ctx context.Context) error {
		out := bufio.NewWriterSize(c.out, 64<<10)
		return cmp.Or(indexes.read(func(x *index.Index) error {
			done, stop := c.counting("documents", x.Stats().Documents)
			defer stop()
			return export.Write(ctx, x, out, done)
		}), out.Flush())
	})
}
