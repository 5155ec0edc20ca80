package main

import (
	"context"
	"fmt"
	"iter"
	"runtime"

	"golang.org/x/sync/semaphore"

	"github.com/neardup/neardup/cmd/neardup/internal/corpus"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
)

// input is a record on its way: a document with its signature, or a skip.
type input struct {
	unparsed  *corpus.Unparsed
	record    corpus.Record
	signature fingerprint.Signature
	err       error
	done      chan struct{}
}

// skipped returns why this is no document to be compared; "" if it is one.
func (i *input) skipped() string {
	switch {
	case i.record.Skip != nil:
		return i.record.Skip.String()
	case i.signature.Features == 0:
		return noText
	}
	return ""
}

const noText = "no text"

// key names a document: by its own key, else by its place in its source.
func (i *input) key() string {
	if i.record.Key != "" {
		return i.record.Key
	}
	return fmt.Sprintf("%s#%d", i.record.Source, i.record.Number)
}

// position says where a record stands.
func (i *input) position() string {
	return position(&i.record)
}

func (i *input) document(f *inputFlags) index.Document {
	d := index.Document{
		Key:         i.key(),
		Fingerprint: i.signature.Fingerprint,
		Shingle:     i.signature.Shingle,
		Scope:       f.scopeOf(&i.record),
	}
	if i.record.Kind != corpus.Fingerprint {
		d.Length = i.signature.Features
	}
	return d
}

// documents returns those of a batch that can be compared.
func documents(batch []*input, f *inputFlags) []index.Document {
	docs := make([]index.Document, 0, len(batch))
	for _, i := range batch {
		if i.skipped() == "" {
			docs = append(docs, i.document(f))
		}
	}
	return docs
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

// analyzed reads all records, parses them and makes their signatures on all cores. It yields
// them in the order in which they were read. ready reports whether the next one
// can be had without waiting.
func analyzed(ctx context.Context, r *corpus.Reader, a *analyzer) (all iter.Seq2[*input, error], ready func() bool) {
	p := &pipeline{
		ordered: make(chan *input, maxAhead),
		work:    make(chan *input, maxAhead),
		bytes:   semaphore.NewWeighted(maxAheadBytes),
	}
	return func(yield func(*input, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel() // ends the goroutines, but does not wait: one may hang in a read of standard input
		go p.read(ctx, r)
		for range runtime.GOMAXPROCS(0) {
			go p.analyze(a)
		}
		for i := range p.inOrder(ctx) {
			if i.err != nil {
				yield(nil, i.err)
				return
			}
			if !yield(i, nil) {
				return
			}
		}
		if err := ctx.Err(); err != nil {
			yield(nil, err)
		}
	}, func() bool { return len(p.ordered) > 0 }
}

type pipeline struct {
	ordered chan *input // as read
	work    chan *input // the same
	bytes   *semaphore.Weighted
}

// inOrder yields the analyzed records as they were read, until ctx is done.
func (p *pipeline) inOrder(ctx context.Context) iter.Seq[*input] {
	return func(yield func(*input) bool) {
		for {
			select {
			case i, more := <-p.ordered:
				if !more {
					return
				}
				<-i.done
				if !yield(i) {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}
}

func (p *pipeline) read(ctx context.Context, r *corpus.Reader) {
	defer close(p.work)
	defer close(p.ordered)
	for unparsed, err := range r.Unparsed(ctx) {
		i := &input{unparsed: unparsed, err: err, done: make(chan struct{})}
		if p.bytes.Acquire(ctx, weightOf(unparsed)) != nil {
			return
		}
		select {
		case p.ordered <- i:
			p.work <- i // has room: it holds no more than ordered does, and the analyzers empty it
		case <-ctx.Done():
			return
		}
	}
}

func weightOf(u *corpus.Unparsed) int64 {
	if u == nil {
		return 0
	}
	return min(int64(u.Bytes()), maxAheadBytes)
}

func (p *pipeline) analyze(a *analyzer) {
	for i := range p.work {
		weight := weightOf(i.unparsed)
		if i.err == nil {
			i.record = i.unparsed.Parse()
			i.unparsed = nil
		}
		if i.err == nil && i.record.Skip == nil {
			i.signature = a.signature(&i.record)
		}
		if weight >= largeDocument {
			runtime.GC()
		}
		p.bytes.Release(weight)
		close(i.done)
	}
}
