package main

import (
	"context"
	"iter"
	"slices"

	"github.com/neardup/neardup/cmd/neardup/internal/corpus"
	"github.com/neardup/neardup/cmd/neardup/internal/documents"
	"github.com/neardup/neardup/cmd/neardup/internal/progress"
	"github.com/neardup/neardup/cmd/neardup/internal/summary"
)

// documentReader reads the documents of the inputs, which are the arguments.
type documentReader struct {
	*documents.Reader
	call  *call
	asked string // name of the analyzer that flags select; "" for the analyzer of the index
	bare  bool   // the inputs are fingerprints
}

// openInputs opens the inputs, which are the arguments. It is called before the index is opened, so
// that a missing input does not create an index.
func (f *inputFlags) openInputs() (*documentReader, error) {
	signer, err := f.signer(0)
	if err != nil {
		return nil, err
	}
	reader, err := f.readerOf(f.call.args...)
	r := &documentReader{Reader: &documents.Reader{Reader: reader, Summary: summary.New()},
		call: f.call}
	r.Analyzer = &documents.Analyzer{Signer: signer, Scope: f.scope, NoKeys: f.noKeys}
	r.bare = slices.Contains([]corpus.Format{corpus.Fingerprints, corpus.Decimal, corpus.U64LE},
		f.Format)
	if !r.bare {
		r.asked = f.asked(signer)
	}
	return r, err
}

// maxBatch is the largest number of records per call of the index.
const maxBatch = 256

// writeBatches is the batching of records that go into an index.
var writeBatches = documents.Batching{Records: maxBatch, Bytes: 64 << 20}

// forEachBatch is ForEachBatch with a progress bar. At the end, and after an error, it prints the
// summary.
func (r *documentReader) forEachBatch(
	ctx context.Context, most documents.Batching, work func([]*documents.Input) error,
) error {
	c := r.call
	stop := progress.New(c.cmd.Name(), c.err, c.outFile()).Reading(ctx, r.Reader.Reader)
	err := r.ForEachBatch(ctx, most, work)
	stop()
	c.inputs, c.documents = true, r.Summary.Compared
	c.accountFor(r.Reader, err)
	return err
}

// compared returns the inputs of a batch that are compared.
func compared(batch []*documents.Input) []*documents.Input {
	return slices.DeleteFunc(slices.Clone(batch), func(i *documents.Input) bool {
		return !i.Compared
	})
}

// chunks yields the fingerprints of lists in order. It shows a progress bar and prints a summary.
func (c *call) chunks(ctx context.Context, reader *corpus.Reader) iter.Seq2[*corpus.Chunk, error] {
	return func(yield func(*corpus.Chunk, error) bool) {
		defer c.reading(ctx, "lists", reader)()
		log := &skipLog{call: c}
		for chunk, err := range reader.Chunks(ctx, nil) {
			if err == nil {
				c.documents += int64(len(chunk.Fingerprints))
				// an empty list is a valid input: only skipped lines make exitNothing possible
				c.inputs = c.inputs || len(chunk.Skips()) > 0
				log.write(chunk)
			}
			if !yield(chunk, err) || err != nil {
				return
			}
		}
		if err := ctx.Err(); err != nil {
			yield(nil, err)
		}
	}
}

// maxSkipLines limits the messages about skipped lines. A file of another format can have millions.
const maxSkipLines = 10

// skipLog logs the skipped lines of lists.
type skipLog struct {
	call *call
	n    int // messages so far
}

func (l *skipLog) write(chunk *corpus.Chunk) {
	for _, rec := range chunk.Skips() {
		if !rec.Skip.Document || l.n == maxSkipLines {
			continue
		}
		further := ""
		if l.n++; l.n == maxSkipLines {
			further = "; further skips are counted only"
		}
		l.call.logf("%s: skipped: %s%s", documents.Position(&rec), rec.Skip, further)
	}
}
