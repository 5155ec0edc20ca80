package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"time"

	"github.com/neardup/neardup"
	"github.com/neardup/neardup/cmd/neardup/internal/corpus"
	"github.com/neardup/neardup/cmd/neardup/internal/progress"
	"github.com/neardup/neardup/cmd/neardup/internal/summary"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/ordered"
	"github.com/neardup/neardup/internal/plan"
	"golang.org/x/sync/semaphore"
)

// input is a record on its way from reading to its line of output.
type input struct {
	record   corpus.Record
	key      string         // of the document; "" if it has none
	compared bool           // false: it is skipped, and line says why if it is a document
	document index.Document // what is compared and stored

	reason  string         // why it is skipped, in few words
	verdict string         // of dedup, or "skipped"
	lost    loss           // what the document replaced in the index
	of      *referenceLine // the match of dedup --against, if there is one
	line    any            // what is printed; nil: nothing, or it is not known yet
	release func()         // gives back the memory of the record as it stood in its file; nil: there is none
}

// verdictLine is the line that dedup prints for a document, and each subcommand for a document that
// it skips.
type verdictLine struct {
	Key         string                   `json:"key"`
	KeyBytes    []byte                   `json:"keyBytes,omitempty"`
	Fingerprint *fingerprint.Fingerprint `json:"fingerprint,omitempty"`
	Verdict     string                   `json:"verdict"`
	Of          *referenceLine           `json:"of,omitempty"`
	Removed     bool                     `json:"removed,omitempty"` // the earlier version of the key
	Reason      string                   `json:"reason,omitempty"`
	ID          uint64                   `json:"id,omitempty"` // if it was stored
	At          string                   `json:"at,omitempty"` // file, record and byte, if the document is skipped or has no key
}

// referenceLine is the nearest document of a duplicate, or the earlier version of a document.
type referenceLine struct {
	Key      string `json:"key"`
	KeyBytes []byte `json:"keyBytes,omitempty"`
	Distance int    `json:"distance"`
	ID       uint64 `json:"id,omitempty"`
	Index    string `json:"index,omitempty"` // folder of the reference that has it

	sameText bool // the documents have equal words
}

// skipped is the verdict on a document that could not be compared.
var skipped = neardup.Skipped.String()

// name returns what the document is called in messages: its key, else its ID.
func (r *referenceLine) name() string {
	if r.Key != "" {
		return r.Key
	}
	return fmt.Sprintf("document %d", r.ID)
}

// at returns the position of the record if the document has no key.
func (i *input) at() string {
	if i.key != "" {
		return ""
	}
	return position(&i.record)
}

// name returns what the document is called in messages: its key, else its position.
func (i *input) name() string { return cmp.Or(i.key, position(&i.record)) }

// analyze makes a document of the record.
func (i *input) analyze(a *analyzer) error {
	i.key = a.key(&i.record)
	if skip := i.record.Skip; skip != nil {
		i.reason = skip.Reason
		if skip.Document { // other records, such as requests of an archive, are counted only
			i.skip(skip.Error())
		}
		return nil
	}
	d, reason, err := a.document(i.key, &i.record)
	if reason != "" {
		i.reason = reason
		i.skip(reason)
	} else {
		i.compared, i.document = true, d
	}
	return err
}

func (i *input) skip(reason string) {
	i.verdict = skipped
	i.line = &verdictLine{Key: i.key, KeyBytes: keyBytes(i.key), Verdict: skipped, Reason: reason, At: position(&i.record)}
}

// compared returns the inputs of a batch that are documents to be compared.
func compared(batch []*input) []*input {
	return slices.DeleteFunc(slices.Clone(batch), func(i *input) bool { return !i.compared })
}

// documents returns those of inputs.
func documents(inputs []*input) []index.Document {
	docs := make([]index.Document, len(inputs))
	for n, i := range inputs {
		docs[n] = i.document
	}
	return docs
}

// maxBatch is the number of records that go to the index together.
const maxBatch = 256

// documentReader reads the inputs and makes documents of their records.
type documentReader struct {
	*corpus.Reader
	call     *call
	analyzer *analyzer
	summary  *summary.Summary // of the records whose work is done
	pages    *plan.Plan       // of the index that they go into, until it is told that there are bare fingerprints among them
}

// openInputs opens the inputs that are the arguments. That comes before an index is opened: a
// missing input should not make one.
func (f *inputFlags) openInputs() (*documentReader, error) {
	a, err := f.analyzer(0)
	if err != nil {
		return nil, err
	}
	reader, err := f.readerOf(f.call.args...)
	return &documentReader{Reader: reader, call: f.call, analyzer: a, summary: summary.New()}, err
}

// batching bounds the batches of a documentReader.
type batching struct {
	records int
	bytes   int64         // of memory, without the contents of the documents, which are not held
	wait    time.Duration // for more records, if a batch has fewer
}

// writeBatches is the batching of records that go into an index.
var writeBatches = batching{records: maxBatch, bytes: 64 << 20}

// memory returns about how many bytes an input takes while it waits in a batch.
func (i *input) memory() int64 {
	const fixed = 512 // the structs of the input, its document and its line
	return fixed + int64(len(i.key)+len(i.document.Scope)+len(i.record.Source))
}

// forEachBatch reads the inputs and passes their records to work, in order. A batch has the records
// that are ready, so that a slow input is answered line by line and a fast one in large batches. At the
// end, also after an error, forEachBatch accounts for every record.
func (r *documentReader) forEachBatch(ctx context.Context, most batching, work func([]*input) error) error {
	c := r.call
	c.inputs = true
	stop := progress.New(c.cmd.Name(), c.err, c.outFile()).Reading(ctx, r.Reader)
	defer func() {
		stop()
		c.accountFor(r)
	}()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the pipe, but does not wait: it may hang in a read of standard input
	pipe := r.analyzed(ctx)
	var batch []*input
	flush := func() error {
		r.tellBare(batch)
		err := work(batch)
		if err == nil {
			for _, i := range batch {
				r.tally(i)
				if i.release != nil {
					i.release()
				}
			}
			clear(batch)
			batch = batch[:0]
		}
		return err
	}
	begun, bytes := time.Now(), int64(0)
	for {
		i, ok, err := pipe.Next()
		if !ok {
			return errors.Join(flush(), err)
		}
		batch = append(batch, i)
		bytes += i.memory()
		if len(batch) == most.records || bytes >= most.bytes || !pipe.Ready() && time.Since(begun) >= most.wait {
			if err := flush(); err != nil {
				return err
			}
			begun, bytes = time.Now(), 0
		}
	}
}

// loss says what became of the earlier version of a document.
type loss uint8

const (
	nothing   loss = iota // there was none, or it had the same text
	replaced              // by another text
	unrelated             // by a text that is not near it
)

// tally counts an input whose work is done.
func (r *documentReader) tally(i *input) {
	c, s := r.call, r.summary
	skip := i.record.Skip
	if skip == nil || !skip.PassedOver {
		s.File(i.record.Source)
	}
	switch {
	case i.compared:
		c.documents++
		s.Compare(i.verdict)
		if i.verdict == neardup.Duplicate.String() {
			host := corpus.Host(i.key)
			s.Duplicate(i.of.name(), !i.of.sameText && host != "" && host == corpus.Host(i.of.Key))
		}
		if i.key != "" && i.lost != nothing {
			s.Replace(i.key, i.lost == unrelated)
		} else if i.key != "" {
			s.Key(i.key)
		}
	case skip != nil && skip.Unrecognized && slices.Contains(c.args, i.record.Source):
		c.unrecognized++
		if c.unrecognized == 1 {
			c.firstUnrecognized = fmt.Sprintf("%s: %s", i.record.Source, skip)
		}
		fallthrough
	default:
		s.Skip(i.reason, i.line != nil || skip != nil && skip.Document)
	}
}

// tellBare says, once, that bare fingerprints go into an index of pages, where they have less to be
// told apart by.
func (r *documentReader) tellBare(batch []*input) {
	isBare := func(i *input) bool { return i.compared && i.record.Kind == corpus.Fingerprint }
	if r.pages == nil || r.analyzer.Signer == nil || !slices.ContainsFunc(batch, isBare) {
		return
	}
	r.call.logf("ready fingerprints have no second one and no length: in this index of pages they are compared by k = %d alone; --format fingerprints makes a new index for them, with k = %d", r.pages.MaxDistance, importK)
	r.pages = nil
}

// What is under way between reading and use, at the most: the number of records,
// and the bytes of their contents (or one record, if that has more).
const (
	maxAhead      = 512
	maxAheadBytes = 32 << 20
)

// largeDocument is from when on a document's memory is collected at once, before more is
// read: the collector would let as much again be in use.
const largeDocument = 4 << 20

// analyzed reads all records and analyzes them on all cores. They come out as they were read.
func (r *documentReader) analyzed(ctx context.Context) *ordered.Pipe[*input] {
	bytes := semaphore.NewWeighted(maxAheadBytes)
	return ordered.New(ctx, runtime.GOMAXPROCS(0), maxAhead, func(p *ordered.Pipe[*input]) error {
		for raw, err := range r.RawRecords(p.Context()) {
			if err != nil {
				return err
			}
			size := min(int64(raw.Bytes()), maxAheadBytes)
			if err := bytes.Acquire(p.Context(), size); err != nil {
				return err
			}
			err := p.Go(func(int) (*input, error) {
				i := &input{record: raw.Parse()}
				raw = nil // its memory is free while the text is looked at
				if release := func() { bytes.Release(size) }; i.record.Original == nil {
					defer release()
				} else {
					i.release = release // a batch does not wait for more than is read, so the reader goes on
				}
				err := i.analyze(r.analyzer)
				if size >= largeDocument {
					runtime.GC()
				}
				return i, err
			})
			if err != nil {
				return err
			}
		}
		return p.Context().Err()
	})
}

// listReader returns a reader of lists of fingerprints.
func (f *inputFlags) listReader(inputs []string) (*corpus.Reader, error) {
	switch f.Format {
	case corpus.Detect, corpus.Fingerprints, corpus.Decimal, corpus.U64LE, corpus.JSONL:
		return f.readerOf(inputs...)
	}
	return nil, usagef("--format is %q; %s reads fingerprints, decimal, u64le or jsonl", f.Format, f.call.cmd.Name())
}

// chunks yields what lists have, in order, shows the progress and accounts for every record.
// A strict one ends at the first line that is no fingerprint.
func (c *call) chunks(ctx context.Context, reader *corpus.Reader, strict bool) iter.Seq2[*corpus.Chunk, error] {
	return func(yield func(*corpus.Chunk, error) bool) {
		defer c.reading(ctx, reader)()
		log := &skipLog{call: c, strict: strict}
		for chunk, err := range reader.Chunks(ctx, nil) {
			if err == nil {
				c.documents += int64(len(chunk.Fingerprints))
				c.inputs = c.inputs || len(chunk.Skips()) > 0 // an empty list has no pairs, and that is an answer
				err = log.write(chunk)
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

// maxSkipLines bounds the lines about single skips: a file of another kind has millions.
const maxSkipLines = 10

// skipLog says what was skipped in lists.
type skipLog struct {
	call   *call
	strict bool // the first skip of a line is an error
	n      int  // skips so far, maxSkipLines at most
}

func (l *skipLog) write(chunk *corpus.Chunk) error {
	for _, rec := range chunk.Skips() {
		switch {
		case l.strict && !rec.Skip.Broken:
			return fmt.Errorf("%s line %d: %s", rec.Source, rec.Number, rec.Skip.Detail)
		case !rec.Skip.Document || l.n == maxSkipLines:
			continue
		}
		further := ""
		if l.n++; l.n == maxSkipLines {
			further = "; further skips are counted only"
		}
		l.call.logf("%s: skipped: %s%s", position(&rec), rec.Skip, further)
	}
	return nil
}

// position says where a record stands.
func position(rec *corpus.Record) string {
	return fmt.Sprintf("%s record %d byte %d", rec.Source, rec.Number, rec.Offset)
}
