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
	"golang.org/x/sync/semaphore"
)

// input is a record on its way from reading to its line of output.
type input struct {
	record   corpus.Record
	key      string         // key of the document; "" if it has none
	compared bool           // false if it is skipped; if it is a document, line has the reason
	document index.Document // the document that is compared and stored

	reason    string         // why it is skipped
	verdict   string         // of dedup, or "skipped"
	unrelated bool           // it replaced a document with the same key and a text that is not near
	of        *referenceLine // the match in the index, if any
	line      any            // the output line; nil if there is none, or none yet
	release   func()         // releases the memory of the original record; nil if there is none
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
}

// skipped is the verdict on a document that cannot be compared.
var skipped = neardup.Skipped.String()

// name returns the key of the document, or its ID if it has no key.
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

// name returns the key of the document, or its position if it has no key.
func (i *input) name() string { return cmp.Or(i.key, position(&i.record)) }

// analyze sets the document of the record.
func (i *input) analyze(a *analyzer) error {
	i.key = a.key(&i.record)
	if skip := i.record.Skip; skip != nil {
		i.reason = skip.Reason
		if skip.Document { // other records, such as requests of a web archive, are only counted
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
	i.line = &verdictLine{Key: i.key, KeyBytes: corpus.KeyBytes(i.key), Verdict: skipped, Reason: reason, At: position(&i.record)}
}

// compared returns the inputs of a batch that are compared.
func compared(batch []*input) []*input {
	return slices.DeleteFunc(slices.Clone(batch), func(i *input) bool { return !i.compared })
}

// maxBatch is the largest number of records of a call of the index.
const maxBatch = 256

// documentReader reads documents from the inputs.
type documentReader struct {
	*corpus.Reader
	call     *call
	analyzer *analyzer
	summary  *summary.Summary // of the finished records
}

// openInputs opens the inputs, which are the arguments. It is called before the index is opened, so that a
// missing input does not create an index.
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
	bytes   int64         // of memory; the contents of documents are not held
	wait    time.Duration // how long a smaller batch waits for more records
}

// writeBatches is the batching of records that go into an index.
var writeBatches = batching{records: maxBatch, bytes: 64 << 20}

// memory returns the approximate memory of an input in a batch.
func (i *input) memory() int64 {
	const fixed = 512 // the structs of the input, its document and its line
	return fixed + int64(len(i.key)+len(i.document.Scope)+len(i.record.Source))
}

// forEachBatch reads the inputs and passes their records to work, in order. A batch has the records that
// are ready: a slow input is answered line by line, a fast input in large batches. At the end, and after
// an error, forEachBatch prints the summary.
func (r *documentReader) forEachBatch(ctx context.Context, most batching, work func([]*input) error) error {
	c := r.call
	c.inputs = true
	stop := progress.New(c.cmd.Name(), c.err, c.outFile()).Reading(ctx, r.Reader)
	defer func() {
		stop()
		c.accountFor(r)
	}()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // stops the pipe without waiting: a read of standard input may block
	pipe := r.analyzed(ctx)
	var batch []*input
	flush := func() error {
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

// tally counts a finished input.
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
			s.Groups.Add(i.of.name())
		}
		if i.unrelated {
			s.Unrelated(i.key)
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

// The limits of the records between the reader and the index: their number, and the bytes of their
// contents. One record may be larger.
const (
	maxAhead      = 512
	maxAheadBytes = 32 << 20
)

// largeDocument is the size from which on the garbage of a document is collected at once. Otherwise the
// heap would grow to twice its size.
const largeDocument = 4 << 20

// analyzed reads all records and analyzes them on all cores. It keeps their order.
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
				raw = nil // so that its memory is free during the analysis
				if release := func() { bytes.Release(size) }; i.record.Original == nil {
					defer release()
				} else {
					i.release = release // after the batch; a batch never waits for records that are not read
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

// chunks yields the fingerprints of lists in order, with a progress bar and a summary at the end.
func (c *call) chunks(ctx context.Context, reader *corpus.Reader) iter.Seq2[*corpus.Chunk, error] {
	return func(yield func(*corpus.Chunk, error) bool) {
		defer c.reading(ctx, reader)()
		log := &skipLog{call: c}
		for chunk, err := range reader.Chunks(ctx, nil) {
			if err == nil {
				c.documents += int64(len(chunk.Fingerprints))
				c.inputs = c.inputs || len(chunk.Skips()) > 0 // an empty list is valid: it has no pairs
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

// maxSkipLines limits the messages about skipped lines: a file of another format has millions.
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
		l.call.logf("%s: skipped: %s%s", position(&rec), rec.Skip, further)
	}
}

// position returns the file, the number and the offset of a record.
func position(rec *corpus.Record) string {
	return fmt.Sprintf("%s record %d byte %d", rec.Source, rec.Number, rec.Offset)
}
