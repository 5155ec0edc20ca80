package corpus

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"path"
	"runtime"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
)

// Lists of fingerprints are read in chunks: one goroutine reads and cuts, at the end of a
// line or of a number, and any number of them parse.

const (
	// chunkBytes is how much of a list is read at once, where it can be had without waiting.
	chunkBytes = fileBuffer
	// chunkRecords is how many JSON lines make a chunk.
	chunkRecords = 4096
)

// Chunks gives the fingerprints of all inputs, which are lists, in order; each chunk is good
// until the next. Where Options.Format is Detect, the name of a file tells what it is: .u64le,
// .jsonl, or else lines of fingerprints. Lines that are no fingerprints are skips of their
// chunk. An error ends the sequence: as in Records, or a document in a list, which matches
// ErrNotFingerprint. It is to be called once, instead of Records.
func (r *Reader) Chunks(ctx context.Context) iter.Seq2[*Chunk, error] {
	return func(yield func(*Chunk, error) bool) {
		c, stopped := new(Chunk), false
		err := r.readLists(ctx, func() *Chunk { return c }, func(c *Chunk) bool {
			r.parse(c)
			stopped = !yield(c, nil)
			return !stopped
		})
		if err != nil && !stopped {
			yield(nil, err)
		}
	}
}

// EachChunk calls do with the chunks of Chunks, from all cores and in no order. A chunk is good
// until do returns. An error of do ends it.
func (r *Reader) EachChunk(ctx context.Context, do func(*Chunk) error) error {
	group, ctx := errgroup.WithContext(ctx)
	free := sync.Pool{New: func() any { return new(Chunk) }}
	read := make(chan *Chunk)
	group.Go(func() error {
		defer close(read)
		return r.readLists(ctx, func() *Chunk { return free.Get().(*Chunk) }, func(c *Chunk) bool {
			select {
			case read <- c:
				return true
			case <-ctx.Done():
				return false
			}
		})
	})
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() error {
			for c := range read {
				r.parse(c)
				if err := do(c); err != nil {
					return err
				}
				free.Put(c)
			}
			return nil
		})
	}
	return group.Wait()
}

// parse parses a chunk and counts what is in it.
func (r *Reader) parse(c *Chunk) {
	if !c.counted {
		c.parse()
		r.counter.countChunk(c)
	}
}

// readLists reads all inputs as lists, into chunks that it gets from fresh, until yield is
// false. Those that are not counted yet are not parsed either.
func (r *Reader) readLists(ctx context.Context, fresh func() *Chunk, yield func(*Chunk) bool) error {
	for i, input := range r.inputs {
		run := &run{Reader: r, ctx: ctx, input: i}
		lists := &listRun{run: run, fresh: fresh, give: yield}
		run.lists, run.yield = lists, lists.record
		err := run.readInput(input)
		lists.flush()
		switch {
		case lists.err != nil:
			return lists.err
		case err != nil:
			return err
		case run.stopped:
			return ctx.Err()
		}
	}
	return nil
}

// listRun is the reading of one input as lists.
type listRun struct {
	*run
	fresh   func() *Chunk
	give    func(*Chunk) bool
	pending *Chunk // records that are parsed one by one: JSON lines, and files that cannot be read
	err     error
}

// record takes in a record that is not in a chunk yet.
func (l *listRun) record(u *RawRecord, err error) bool {
	rec := u.Parse()
	if l.pending != nil && (l.pending.Source != rec.Source || len(l.pending.Fingerprints)+len(l.pending.skips) == chunkRecords) && !l.flush() {
		return false
	}
	if l.pending == nil {
		l.pending = l.fresh()
		l.pending.reset(rec.Source, JSONL, uint64(rec.Number), 0, l.input)
		l.pending.counted = true
	}
	l.err = l.pending.addRecord(&rec)
	return l.err == nil
}

// flush gives what record has taken in. It is false when to stop.
func (l *listRun) flush() bool {
	c := l.pending
	l.pending = nil
	if c != nil && !l.stopped {
		l.stopped = !l.give(c)
	}
	return !l.stopped
}

// readList reads one file.
func (s *source) readList() {
	if !s.lists.flush() {
		return
	}
	format := s.opts.listFormat(s.name)
	if format == JSONL {
		s.jsonLines()
		s.lists.flush()
		return
	}
	cut := &listCutter{source: s, format: format, number: 1}
	for c := s.lists.fresh(); cut.next(c); c = s.lists.fresh() {
		if !s.lists.give(c) {
			s.stopped = true
			return
		}
	}
}

// list reads one file as records.
func (s *source) list(format Format) {
	cut := &listCutter{source: s, format: format, number: 1}
	for c := new(Chunk); cut.next(c); {
		c.parse()
		for rec := range c.records {
			if !s.send(rec) {
				return
			}
		}
	}
}

// listFormat is the format of a list by its name, where it is not forced.
func (o *Options) listFormat(name string) Format {
	switch format := formatByName(name); {
	case o.Format != Detect:
		return o.Format
	case format == U64LE || format == JSONL:
		return format
	}
	return Fingerprints
}

// isRawWords says whether a file is numbers that are not compressed. They may begin with any
// bytes, also with those of a compressed file, so its name decides. Standard input has none.
func (o *Options) isRawWords(name string) bool {
	switch path.Ext(strings.ToLower(name)) {
	case ".gz", ".zst":
		return false
	}
	return name != "-" && (o.Format == U64LE || o.Format == Detect && formatByName(name) == U64LE)
}

// reset makes a chunk ready to be read into.
func (c *Chunk) reset(source string, format Format, first uint64, offset int64, input int) {
	*c = Chunk{
		Source: source, format: format, first: first, offset: offset, input: input,
		Fingerprints: c.Fingerprints[:0], lines: c.lines[:0], bad: c.bad[:0], buffer: c.buffer,
	}
	if format == U64LE {
		c.lines = nil
	}
}

// listCutter cuts a file into chunks.
type listCutter struct {
	*source
	format Format
	number uint64 // of the next line or word
	offset int64  // of the next chunk
	rest   []byte // what was read of it: the beginning of a line or a word
	ended  bool
}

// next reads the next chunk, which is to be parsed. It is false at the end.
func (l *listCutter) next(c *Chunk) bool {
	if l.ended {
		return false
	}
	c.reset(l.name, l.format, l.number, l.offset, l.input)
	if c.buffer == nil {
		c.buffer = make([]byte, maxListLine+chunkBytes)
	}
	n := copy(c.buffer, l.rest)
	whole := 0
	for whole == 0 && n <= maxListLine+len("\r\n") {
		got := l.w.read(c.buffer[n:min(max(n+1, chunkBytes), len(c.buffer))])
		if got == 0 {
			return l.last(c, n)
		}
		whole = l.wholeIn(c.buffer[n:n+got], n)
		n += got
	}
	if whole == 0 {
		l.skipLine(c, int64(n))
		return true
	}
	l.rest = append(l.rest[:0], c.buffer[whole:n]...)
	l.take(c, whole)
	return true
}

// wholeIn is how much of what was read is whole lines or words: of before bytes, none of
// which ends one, and of more.
func (l *listCutter) wholeIn(more []byte, before int) int {
	if l.format == U64LE {
		return (before + len(more)) &^ 7
	}
	if end := bytes.LastIndexByte(more, '\n'); end >= 0 {
		return before + end + 1
	}
	return 0
}

// take makes the first n bytes of the buffer the text of the chunk.
func (l *listCutter) take(c *Chunk, n int) {
	c.text = c.buffer[:n]
	l.offset += int64(n)
	if l.format == U64LE {
		l.number += uint64(n / 8)
	} else {
		l.number += uint64(bytes.Count(c.text, []byte{'\n'}))
	}
}

// skipLine reads on to the end of a line that is too long, of which n bytes were read.
func (l *listCutter) skipLine(c *Chunk, n int64) {
	_, size, _ := l.w.line(nil, 0)
	l.rest = l.rest[:0]
	l.skip(c, tooLarge(n+size, maxListLine))
	l.number++
	l.offset += n + size
}

func (l *listCutter) skip(c *Chunk, skip Skip) {
	c.skips = append(c.skips, Record{Source: l.name, Number: int64(l.number), Offset: l.offset, Skip: &skip})
}

// last makes a chunk of the end of a file, behind n bytes that are no whole line or word.
func (l *listCutter) last(c *Chunk, n int) bool {
	l.ended = true
	switch d := l.w.corruption(); {
	case l.ctx.Err() != nil: // that ended the file
		return false
	case d != nil:
		l.skip(c, *d.skip("; what follows was not read"))
	case n == 0:
		return false
	case l.format == U64LE:
		l.skip(c, Skip{Reason: "truncated fingerprint", Detail: fmt.Sprintf("%d bytes at the end: want 8", n), Document: true, Broken: true})
	default:
		l.take(c, n)
	}
	return true
}
