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
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/match"
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
	KeyBytes    []byte                  `json:"keyBytes,omitempty"`
	Fingerprint fingerprint.Fingerprint `json:"fingerprint"`
	ID          uint64                  `json:"id"`
	At          string                  `json:"at,omitempty"` // file, record and byte, if the document has no key
}

func runAdd(ctx context.Context, c *call) error {
	inputs := c.inputFlags().keyFlags().scopeFlag().analyzerFlags()
	indexes := c.requiredIndexFlags().makingFlags(defaultK)
	if err := c.parse(); err != nil {
		return err
	}
	docs, err := inputs.openInputs()
	if err != nil {
		return err
	}
	o, err := indexes.optionsFor(docs.analyzer)
	if err != nil {
		return err
	}
	x, err := indexes.open(o)
	if err != nil {
		return err
	}
	docs.analyzer.Signer, docs.pages = x.Signer(), x.Plan()
	out := newLines(c.out)
	err = docs.forEachBatch(ctx, writeBatches, func(batch []*input) error {
		inputs := compared(batch)
		stored := documents(inputs)
		if err := x.Add(ctx, stored...); err != nil {
			return err
		}
		for n, i := range inputs {
			i.lost = replaced // perhaps: add does not look
			i.line = addLine{stored[n].Key, keyBytes(stored[n].Key), stored[n].Fingerprint, stored[n].ID, i.at()}
		}
		out.writeReady(batch)
		return out.Flush()
	})
	if err == nil {
		err = indexes.expire(ctx, x)
	}
	return errors.Join(err, indexes.close(x))
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
}

var importCommand = command{
	name:        "import",
	args:        "-index DIR [-k 3] [-analyzer NAME] INPUT...",
	summary:     "load ready fingerprints in bulk: lines of fingerprint[TAB key], 8 bytes little-endian each (files named .u64le), JSON lines (.jsonl), or whole indexes, as \"neardup export\" prints them; no other process may have the index open",
	interrupted: "nothing was stored",
	run:         runImport,
}

// importing is what the flags of import say.
type importing struct {
	call    *call
	indexes *indexFlags
	memory  size

	analyzer string
}

func runImport(ctx context.Context, c *call) error {
	inputs := c.inputFlags()
	i := &importing{call: c, indexes: c.requiredIndexFlags().makingFlags(importK), memory: c.sizeFlag("memory", 1<<30, 1<<20, "`size` of the memory for sorting")}
	c.flags.StringVar(&i.analyzer, "analyzer", "", "`name` of the analyzer that made the fingerprints, as \"stats\" shows it")
	if err := c.parse(); err != nil {
		return err
	}
	var exports []export.Index
	var err error
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
		return usagef("-analyzer is %q, but the fingerprints are of %q", i.analyzer, exports[0].Analyzer)
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

// load loads documents into an index that is not in use.
func (i *importing) load(ctx context.Context, docs iter.Seq2[index.Document, error], exports []export.Index) error {
	c := i.call
	exported := len(exports) > 0 && !c.given("k") && !i.indexes.exist() // k of the index is that of the export
	if exported {
		*i.indexes.k = exports[0].MaxDistance
	}
	o, err := i.indexes.options(i.analyzer, i.analyzer == "")
	if err != nil {
		return err
	}
	if exported {
		o.Index.MaxDistance = distanceOption(exports[0].MaxDistance)
	}
	if !c.given("expected-documents") {
		o.Index.ExpectedDocuments = 0 // it will be known
	}
	absent := i.indexes.absent()
	show, stop := c.compaction()
	report, err := compaction.Load(ctx, i.indexes.dir, docs, compaction.LoadOptions{
		KeepAdded:   len(exports) > 0,
		Index:       o.Index,
		MemoryBytes: i.memory.bytes(),
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

// stored says what became of a load.
func stored(loaded, replaced uint64) string {
	if replaced == 0 {
		return fmt.Sprintf("%d fingerprints stored", loaded)
	}
	return fmt.Sprintf("%d fingerprints stored, %d documents replaced by later ones with their keys", loaded, replaced)
}

// listedDocuments yields those of lists. One without a key stays bare: it takes a few bytes, not a record.
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

// exportedDocuments yields those of exports. It ends at the first line that is none.
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

var exportCommand = command{
	name:    "export",
	args:    "-index DIR [-format jsonl|fingerprints|u64le]",
	summary: "print every stored document as JSON lines, from which \"neardup import\" makes an equal index",
	more: `-format fingerprints prints the fingerprint, 16 hex digits, and after a tab the key. It leaves out the
second fingerprint, the length, the scope and the time of a document.
` + quotedKeys,
	run: runExport,
}

func runExport(ctx context.Context, c *call) error {
	indexes := c.requiredIndexFlags()
	format := c.choiceFlag("format", "`format`: jsonl, which keeps all that is stored; fingerprints, lines of fingerprint[TAB key]; or u64le, 8 bytes little-endian each", "jsonl", "fingerprints", "u64le")
	if err := c.parseFlags(); err != nil {
		return err
	}
	out, lossy := bufio.NewWriterSize(c.out, 64<<10), 0
	err := indexes.read(func(x *index.Index) error {
		if *format == "jsonl" {
			return export.Write(ctx, x, out)
		}
		for d, err := range x.Documents(ctx) {
			if err == nil {
				err = writeDocument(out, &d, *format)
			}
			if err != nil {
				return err
			}
			if d.Shingle != 0 || d.Tokens != 0 || d.Scope != "" || d.Key != "" && *format == "u64le" {
				lossy++
			}
		}
		return nil
	})
	if err == nil && lossy > 0 {
		c.logf("of %d documents, -format %s leaves out a second fingerprint, a length, a scope or a key: what is made of it has other matches; -format jsonl has all", lossy, *format)
	}
	return cmp.Or(err, out.Flush())
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
