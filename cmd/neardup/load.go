package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"

	"github.com/neardup/neardup/cmd/neardup/internal/corpus"
	"github.com/neardup/neardup/cmd/neardup/internal/export"
	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/match"
	"github.com/spf13/cobra"
)

func fingerprintCommand(a *app) *cobra.Command {
	c := a.command(&cobra.Command{
		Use:   "fingerprint [flags] INPUT...",
		Short: "Print the fingerprints of documents",
		Long: `Print a line per document: the fingerprint (16 hex digits), a tab and the key. import reads these
lines.

` + quotedKeys,
		Example: `  neardup fingerprint page.html
  neardup fingerprint pages.warc.gz | neardup import --index ix -`,
	})
	inputs := c.inputFlags().fieldFlags().analyzerFlags()
	return c.runs(func(ctx context.Context) error {
		docs, err := inputs.openInputs()
		if err != nil {
			return err
		}
		out := bufio.NewWriterSize(c.out, 64<<10)
		return docs.forEachBatch(ctx, writeBatches, func(batch []*input) error {
			for _, i := range batch {
				if i.compared {
					writeDocument(out, &i.document, "fingerprints") // its errors stick
				} else if skip, ok := i.line.(*verdictLine); ok {
					c.logf("%s: skipped: %s (%s)", i.name(), skip.Reason, skip.At)
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
		Long: `Load documents in bulk into an index that no other process has open: an export of an index, lines of
a fingerprint, a tab and a key, 8 bytes little-endian per fingerprint (files named .u64le) or JSON
lines.

` + quotedKeys,
		Example: `  neardup export --index old | neardup import --index new -
  neardup import --index ix --max-distance 3 fingerprints.txt.gz`,
	})
	c.interrupted = "nothing was stored"
	inputs := c.inputFlags()
	inputs.keyFieldFlag()
	i := &importing{call: c, indexes: c.requiredIndexFlag().createFlags(importK), memory: c.sizeFlag("memory", 1<<30, 1<<20, "`size` of the memory for sorting")}
	c.flags.StringVar(&i.analyzer, "analyzer", "", "`name` of the analyzer that made the fingerprints, as stats prints it")
	return c.runs(func(ctx context.Context) error { return i.run(ctx, inputs) })
}

// importing are the flags of import.
type importing struct {
	call    *call
	indexes *indexFlags
	memory  *int64

	analyzer string
}

func (i *importing) run(ctx context.Context, inputs *inputFlags) (err error) {
	c := i.call
	var exports []export.Index
	if inputs.Format == corpus.Detect || inputs.Format == corpus.JSONL {
		exports, inputs.Opened, err = export.Among(ctx, c.args, c.in)
		if errors.Is(err, export.ErrMixed) {
			err = usageError{err}
		}
		if err != nil {
			return err
		}
		if stdin := inputs.Opened["-"]; stdin != nil {
			c.in = stdin
		}
	}
	if len(exports) > 0 && i.analyzer != "" && i.analyzer != exports[0].Analyzer {
		return usagef("--analyzer is %q, but the fingerprints are of %q", i.analyzer, exports[0].Analyzer)
	} else if len(exports) > 0 {
		i.analyzer = exports[0].Analyzer
	}
	docs := inputs.exportedDocuments(exports)
	if len(exports) == 0 {
		if docs, err = inputs.listedDocuments(ctx); err != nil {
			return err
		}
	}
	return i.load(ctx, docs, exports)
}

// load loads documents into a closed index.
func (i *importing) load(ctx context.Context, docs iter.Seq2[index.Document, error], exports []export.Index) error {
	c := i.call
	exported := len(exports) > 0 && !c.given("max-distance") && !i.indexes.exist() // the index gets the k of the export
	if exported {
		*i.indexes.k = exports[0].MaxDistance
	}
	o := i.indexes.options(i.analyzer, i.analyzer == "")
	if exported {
		o.Index.MaxDistance = distanceOption(exports[0].MaxDistance)
	}
	absent := i.indexes.absent()
	show, stop := c.compaction()
	report, err := compaction.Load(ctx, i.indexes.dir, docs, compaction.LoadOptions{
		KeepAdded:   len(exports) > 0,
		Index:       o.Index,
		MemoryBytes: *i.memory,
		Progress: func(p compaction.Progress) {
			if p.Stage != compaction.StageRead || len(exports) > 0 { // reading a list has a bar of its own
				show(p)
			}
		},
	})
	stop()
	if err != nil {
		return err
	}
	if absent {
		c.logf("created index %s", i.indexes.dir)
	}
	c.logf("%s in %.1f s; the index has %d documents", stored(report.Loaded, report.Replaced), report.Seconds, report.Documents)
	return nil
}

// stored describes the result of a load.
func stored(loaded, replaced uint64) string {
	if replaced == 0 {
		return fmt.Sprintf("%d fingerprints stored", loaded)
	}
	return fmt.Sprintf("%d fingerprints stored, %d documents replaced by later ones with their keys", loaded, replaced)
}

// listedDocuments yields the documents of lists. A document without a key is stored without a record.
func (f *inputFlags) listedDocuments(ctx context.Context) (iter.Seq2[index.Document, error], error) {
	reader, err := f.listReader(f.call.args)
	f.call.inputs = true
	return func(yield func(index.Document, error) bool) {
		for chunk, err := range f.call.chunks(ctx, reader, false) {
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

// exportedDocuments yields the documents of exports. It ends at the first malformed line.
func (f *inputFlags) exportedDocuments(exports []export.Index) iter.Seq2[index.Document, error] {
	return func(yield func(index.Document, error) bool) {
		for n, name := range f.call.args {
			for d, err := range f.documentsAt(name, exports[n].Documents) {
				if err != nil {
					err = fmt.Errorf("%w: %s: %w", corpus.ErrBroken, name, err)
				}
				if !yield(d, err) || err != nil {
					return
				}
			}
		}
	}
}

func (f *inputFlags) documentsAt(name string, want uint64) iter.Seq2[index.Document, error] {
	return func(yield func(index.Document, error) bool) {
		path, pipe := name, f.Opened[name]
		if pipe != nil {
			path = "-"
		}
		in, err := corpus.Open(path, pipe)
		if err != nil {
			yield(index.Document{}, err)
			return
		}
		defer in.Close()
		export.Documents(in, want)(yield)
	}
}

func exportCommand(a *app) *cobra.Command {
	c := a.command(&cobra.Command{
		Use:   "export --index DIR [flags]",
		Short: "Print every stored document; import makes an equal index of the output",
		Long: `Print every stored document as a JSON line. --output-format fingerprints prints the fingerprint (16 hex
digits), a tab and the key, and leaves out the shingles, the length, the scope and the time.

` + quotedKeys,
		Example: `  neardup export --index ix | zstd > ix.jsonl.zst`,
		Args:    noArgs,
	})
	indexes := c.requiredIndexFlag()
	format := c.choiceFlag("output-format", "`format` of the output: jsonl, which keeps everything; fingerprints, lines of fingerprint, tab and key; or u64le, 8 bytes little-endian each", "jsonl", "fingerprints", "u64le")
	return c.runs(func(ctx context.Context) error {
		out, lossy := bufio.NewWriterSize(c.out, 64<<10), 0
		err := indexes.read(func(x *index.Index) error {
			done, stop := c.counting("documents", x.Stats().Documents)
			defer stop()
			if *format == "jsonl" {
				return export.Write(ctx, x, out, done)
			}
			for d, err := range x.Documents(ctx) {
				if err == nil {
					err = writeDocument(out, &d, *format)
				}
				if err != nil {
					return err
				}
				done.Add(1)
				if !d.Shingles.IsZero() || d.Tokens != 0 || d.Scope != "" || d.Key != "" && *format == "u64le" {
					lossy++
				}
			}
			return nil
		})
		if err == nil && lossy > 0 {
			c.logf("of %d documents, --output-format %s leaves out shingles, a length, a scope or a key: an index of these lines has other matches; --output-format jsonl keeps everything", lossy, *format)
		}
		return cmp.Or(err, out.Flush())
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
