package documents

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/neardup/neardup"
	"github.com/neardup/neardup/cmd/neardup/internal/corpus"
	"github.com/neardup/neardup/cmd/neardup/internal/summary"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/ordered"
	"golang.org/x/sync/semaphore"
)

// Input is a record with its document, its verdict and its output line.
type Input struct {
	Record   corpus.Record
	Key      string         // key of the document; "" if it has no key
	Compared bool           // false if the record is skipped
	Document index.Document // the document that is compared and stored
	Reason   string         // why the record is skipped

	Verdict   string // verdict of dedup, or Skipped
	Unrelated bool   // it replaced a document with the same key and a text that is not near
	Of        *Stored
	Line      any  // the output line, or nil
	Finished  bool // the line is printed, even if the rest of the batch fails

	release func() // releases the memory of the original record; nil if there is none
}

// Line is the line that dedup prints for a document, and each subcommand for a document that it
// skips.
type Line struct {
	Key         string                   `json:"key"`
	KeyBytes    []byte                   `json:"keyBytes,omitempty"`
	Fingerprint *fingerprint.Fingerprint `json:"fingerprint,omitempty"`
	Verdict     string                   `json:"verdict"`
	Of          *Stored                  `json:"of,omitempty"`
	// whether the earlier version of the document was removed
	Removed bool   `json:"removed,omitempty"`
	Reason  string `json:"reason,omitempty"`
	ID      uint64 `json:"id,omitempty"` // if it was stored
	// file, record and byte, if the document is skipped or has no key
	At string `json:"at,omitempty"`
}

// Stored is the nearest document of a duplicate, or the earlier version of a document.
type Stored struct {
	Key      string `json:"key"`
	KeyBytes []byte `json:"keyBytes,omitempty"`
	Distance int    `json:"distance"`
	ID       uint64 `json:"id,omitempty"`
}

// Skipped is the verdict on a document that cannot be compared.
var Skipped = neardup.Skipped.String()

// Name returns the key of the document, or its position if it has no key.
func (i *Input) Name() string { return cmp.Or(i.Key, Position(&i.Record)) }

// At returns the position of the record if the document has no key.
func (i *Input) At() string {
	if i.Key != "" {
		return ""
	}
	return Position(&i.Record)
}

// Position returns the file, the number and the offset of a record.
func Position(r *corpus.Record) string {
	return fmt.Sprintf("%s record %d byte %d", r.Source, r.Number, r.Offset)
}

// Decide sets the verdict on a document, and the ID of the document if it was stored.
func (i *Input) Decide(id uint64, v neardup.Verdict) {
	i.Document.ID, i.Verdict = id, v.Status.String()
	i.Unrelated = v.Status == neardup.Changed && !v.Near
	if v.Status != neardup.New {
		i.Of = &Stored{Key: v.Of.Key, KeyBytes: corpus.KeyBytes(v.Of.Key),
			Distance: v.Of.Distance, ID: v.Of.ID}
	}
	i.Line = &Line{
		Key: i.Key, KeyBytes: corpus.KeyBytes(i.Key), ID: id,
		Fingerprint: &i.Document.Fingerprint, Verdict: i.Verdict, Of: i.Of,
		Removed: v.Removed, At: i.At(),
	}
}

// analyze sets the document of the record.
func (i *Input) analyze(a *Analyzer) error {
	i.Key = a.Key(&i.Record)
	if skip := i.Record.Skip; skip != nil {
		i.Reason = skip.Reason
		if skip.Document { // other records, such as requests of a web archive, are only counted
			i.skip(skip.Error())
		}
		return nil
	}
	d, reason, err := a.Document(i.Key, &i.Record)
	if reason != "" {
		i.Reason = reason
		i.skip(reason)
	} else {
		i.Compared, i.Document = true, d
	}
	return err
}

func (i *Input) skip(reason string) {
	i.Verdict = Skipped
	i.Line = &Line{Key: i.Key, KeyBytes: corpus.KeyBytes(i.Key), Verdict: Skipped, Reason: reason,
		At: Position(&i.Record)}
}

// memory returns the approximate memory of an input in a batch.
func (i *Input) memory() int64 {
	const fixed = 512 // the structs of the input, its document and its line
	return fixed + int64(len(i.Key)+len(i.Document.Scope)+len(i.Record.Source))
}

// Reader reads documents from inputs.
type Reader struct {
	*corpus.Reader
	Analyzer *Analyzer
	Summary  *summary.Summary // of the finished records
}

// Batching bounds the batches of a Reader.
type Batching struct {
	Records int
	Bytes   int64         // of memory, without the contents of documents
	Wait    time.Duration // how long a smaller batch waits for more records
}

// ForEachBatch reads the inputs and passes their records to work, in order. A batch has the records
// that are ready: single lines of a slow input, many lines of a fast input. If work fails, the
// summary counts the inputs of the batch that are Finished.
func (r *Reader) ForEachBatch(ctx context.Context, most Batching, work func([]*Input) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // stops the pipe without waiting: a read of standard input may block
	pipe := r.analyzed(ctx)
	var batch []*Input
	flush := func() error {
		err := work(batch)
		for _, i := range batch {
			if err == nil || i.Finished {
				r.tally(i)
			}
			if i.release != nil {
				i.release()
			}
		}
		if err != nil {
			return err
		}
		clear(batch)
		batch = batch[:0]
		return nil
	}
	begun, bytes := time.Now(), int64(0)
	for {
		i, ok, err := pipe.Next()
		if !ok {
			return errors.Join(flush(), err)
		}
		batch = append(batch, i)
		bytes += i.memory()
		if len(batch) == most.Records || bytes >= most.Bytes || !pipe.Ready() &&
			time.Since(begun) >= most.Wait {
			if err := flush(); err != nil {
				return err
			}
			begun, bytes = time.Now(), 0
		}
	}
}

// tally counts a finished input.
func (r *Reader) tally(i *Input) {
	s, skip := r.Summary, i.Record.Skip
	if skip == nil || !skip.PassedOver {
		s.File(i.Record.Source)
	}
	if !i.Compared {
		s.Skip(i.Reason, i.Verdict == Skipped)
		return
	}
	s.Compare(i.Verdict)
	if i.Verdict == neardup.Duplicate.String() {
		s.Groups.Add(cmp.Or(i.Of.Key, fmt.Sprintf("document %d", i.Of.ID)))
	}
	if i.Unrelated {
		s.Unrelated(i.Key)
	}
}

// The limits of the records between the reader and the work: their number, and the bytes of their
// contents. One record may be larger.
const (
	maxAhead      = 512
	maxAheadBytes = 32 << 20
)

// largeDocument is the size from which the garbage of a document is collected at once. Otherwise
// the heap would grow to twice its size.
const largeDocument = 4 << 20

// analyzed reads all records and analyzes them on all cores. It keeps their order.
func (r *Reader) analyzed(ctx context.Context) *ordered.Pipe[*Input] {
	bytes := semaphore.NewWeighted(maxAheadBytes)
	return ordered.New(ctx, runtime.GOMAXPROCS(0), maxAhead, func(p *ordered.Pipe[*Input]) error {
		for raw, err := range r.RawRecords(p.Context()) {
			if err != nil {
				return err
			}
			size := min(int64(raw.Bytes()), maxAheadBytes)
			if err := bytes.Acquire(p.Context(), size); err != nil {
				return err
			}
			err := p.Go(func(int) (*Input, error) {
				i := &Input{Record: raw.Parse()}
				raw = nil // so that its memory is free during the analysis
				if release := func() { bytes.Release(size) }; i.Record.Original == nil {
					defer release()
				} else {
					// after the batch; a batch never waits for records that are not read
					i.release = release
				}
				err := i.analyze(r.Analyzer)
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
