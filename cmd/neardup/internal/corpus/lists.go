package corpus

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"path"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"github.com/neardup/neardup/fingerprint"
	"golang.org/x/sync/errgroup"
)

// Lists of fingerprints are read in chunks: one goroutine reads and cuts, at the end of a
// line or of a number, and any number of them parse.

const (
	// maxListLine bounds a line of a list of fingerprints: its key is a URL.
	maxListLine = 1 << 20
	// chunkBytes is how much of a list is read at once, where it can be had without waiting.
	chunkBytes = fileBuffer
)

// ErrNotFingerprint is matched by the error of a document in a list of fingerprints.
var ErrNotFingerprint = errors.New("a document in a list of fingerprints")

// Chunk is fingerprints that follow each other in a list, and what there is between them
// that is none.
type Chunk struct {
	Source       string // as in Record
	Fingerprints []fingerprint.Fingerprint

	opts   *Options
	format Format
	input  int        // of the Reader
	first  uint64     // number of the first line or word, from 1
	offset int64      // where the chunk begins
	text   []byte     // what was read; of JSON lines, all keys behind it
	lines  []listLine // of the fingerprints; none of words
	bad    []listLine // that are no fingerprints
	end    *Record    // a skip behind all others: of the end of a list, or a file that cannot be read
	buffer []byte     // that text is in
}

// listLine is a line of a chunk: its number, less the first; where it begins in the text; and
// where its key does, or, if it is no fingerprint, where it ends.
type listLine struct{ number, begin, key, end uint32 }

// Number is the place of a fingerprint in its input, from 1: that of its line, where it is
// in lines.
func (c *Chunk) Number(i int) uint64 {
	if c.lines == nil {
		return c.first + uint64(i)
	}
	return c.first + uint64(c.lines[i].number)
}

// Key is the key of a fingerprint; empty where there is none.
func (c *Chunk) Key(i int) string {
	if c.lines == nil {
		return ""
	}
	key := string(c.text[c.lines[i].key:c.lines[i].end])
	if c.format == JSONL {
		return key
	}
	return UnquoteKey(key)
}

// Skips gives what is no fingerprint, in order.
func (c *Chunk) Skips() iter.Seq[Record] {
	return func(yield func(Record) bool) {
		for _, l := range c.bad {
			_, key, skip := c.parseLine(c.text[l.begin:l.end])
			if !yield(Record{Source: c.Source, Number: int64(c.first) + int64(l.number), Offset: c.offset + int64(l.begin), Key: UnquoteKey(string(key)), Skip: skip}) {
				return
			}
		}
		if c.end != nil {
			yield(*c.end)
		}
	}
}

// parse finds the fingerprints in the text.
func (c *Chunk) parse() error {
	text := c.text
	if c.format == U64LE {
		for ; len(text) >= 8; text = text[8:] {
			c.Fingerprints = append(c.Fingerprints, fingerprint.Fingerprint(binary.LittleEndian.Uint64(text)))
		}
		return nil
	}
	for number, begin := 0, 0; begin < len(text); number++ {
		line, _, _ := bytes.Cut(text[begin:], []byte{'\n'})
		next := begin + len(line) + 1
		if number == 0 && c.offset == 0 && bytes.HasPrefix(line, byteOrderMark) {
			begin, line = begin+len(byteOrderMark), line[len(byteOrderMark):]
		}
		line = bytes.TrimSuffix(line, []byte{'\r'})
		l := listLine{number: uint32(number), begin: uint32(begin), end: uint32(begin + len(line))}
		if begin = next; len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		fp, key, skip := c.parseLine(line)
		switch {
		case skip != nil && skip.Err == ErrNotFingerprint:
			return fmt.Errorf("%w: %s line %d byte %d is a text; add and dedup read it", ErrNotFingerprint, c.Source, c.first+uint64(number), c.offset+int64(l.begin))
		case skip != nil:
			c.bad = append(c.bad, l)
			continue
		case c.format == JSONL:
			c.text = append(c.text, key...)
			l.end = uint32(len(c.text))
		}
		l.key = l.end - uint32(len(key))
		c.Fingerprints, c.lines = append(c.Fingerprints, fp), append(c.lines, l)
	}
	return nil
}

// parseLine takes a line apart, or says why it is no fingerprint.
func (c *Chunk) parseLine(line []byte) (fp fingerprint.Fingerprint, key []byte, skip *Skip) {
	var err error
	switch {
	case len(line) > maxListLine:
		large := tooLarge(int64(len(line)), maxListLine)
		return 0, nil, &large
	case c.format == JSONL:
		var rec Record
		if rec.setJSON(line, c.opts); rec.Skip == nil && rec.Kind != Fingerprint {
			rec.Skip = &Skip{Err: ErrNotFingerprint}
		}
		return rec.Fingerprint, []byte(rec.Key), rec.Skip
	case c.format == Decimal:
		fp, err = parseDecimal(line)
	default:
		var digits []byte
		digits, key, _ = bytes.Cut(line, []byte{'\t'})
		var ok bool
		if fp, ok = parseHex(digits); !ok {
			fp, err = fingerprint.Parse(string(digits[:min(len(digits), 64)]))
		}
	}
	if err != nil {
		skip = &Skip{Reason: "bad fingerprint", Detail: err.Error(), Document: true, Err: err}
	}
	return fp, key, skip
}

// parseDecimal reads the number that a line begins with. What stands behind it, after a space
// or a tab, does not count.
func parseDecimal(line []byte) (fingerprint.Fingerprint, error) {
	line = bytes.TrimSpace(line)
	if end := bytes.IndexAny(line, " \t"); end > 0 {
		line = line[:end]
	}
	n, err := strconv.ParseUint(string(line), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%.40q is no decimal number below 2^64", line)
	}
	return fingerprint.Fingerprint(n), nil
}

// parseHex reads 16 digits, as most lines have them; all else is left to fingerprint.Parse.
func parseHex(digits []byte) (fp fingerprint.Fingerprint, ok bool) {
	if len(digits) != 16 {
		return 0, false
	}
	for _, d := range digits {
		v := hexDigits[d]
		if v > 15 {
			return 0, false
		}
		fp = fp<<4 | fingerprint.Fingerprint(v)
	}
	return fp, true
}

var hexDigits = func() (table [256]byte) {
	for i := range table {
		table[i] = 0xff
	}
	for i, d := range "0123456789abcdef" {
		table[d] = byte(i)
	}
	for i, d := range "ABCDEF" {
		table[d] = byte(10 + i)
	}
	return table
}()

// Chunks gives the fingerprints of all inputs, which are lists, in order; each chunk is good
// until the next. Where Options.Format is Detect, the name of a file tells what it is: .u64le,
// .jsonl, or else lines of fingerprints. Lines that are no fingerprints are skips of their
// chunk. An error ends the sequence: as in RawRecords, or a document in a list, which matches
// ErrNotFingerprint.
func (r *Reader) Chunks(ctx context.Context) iter.Seq2[*Chunk, error] {
	return func(yield func(*Chunk, error) bool) {
		c, stopped := new(Chunk), false
		var failed error
		err := r.readLists(ctx, func() *Chunk { return c }, func(c *Chunk) bool {
			if failed = r.parse(c); failed == nil {
				stopped = !yield(c, nil)
			}
			return failed == nil && !stopped
		})
		if err = cmp.Or(failed, err); err != nil && !stopped {
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
		err := r.readLists(ctx, func() *Chunk { return free.Get().(*Chunk) }, func(c *Chunk) bool {
			select {
			case read <- c:
				return true
			case <-ctx.Done():
				return false
			}
		})
		return cmp.Or(err, ctx.Err())
	})
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() error {
			for c := range read {
				err := r.parse(c)
				if err == nil {
					err = do(c)
				}
				if err != nil {
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
func (r *Reader) parse(c *Chunk) error {
	err := c.parse()
	r.count(c.input, len(c.Fingerprints))
	for rec := range c.Skips() {
		r.count(c.input, 0, rec)
	}
	return err
}

// readLists reads all inputs as lists, into chunks that it gets from fresh and hands over
// unparsed, until give is false.
func (r *Reader) readLists(ctx context.Context, fresh func() *Chunk, give func(*Chunk) bool) error {
	run := &run{Reader: r, ctx: ctx}
	run.read = func(s *source) {
		s.cut(r.opts.listFormat(s.name), fresh, func(c *Chunk) bool {
			s.stopped = !give(c)
			return !s.stopped
		})
	}
	run.give = func(u *RawRecord) bool { // a file that cannot be read
		c := fresh()
		c.reset(&source{run: run, name: u.record.Source}, Detect)
		c.end = &u.record
		return give(c)
	}
	return run.readAll()
}

// list reads a file as records.
func (s *source) list(format Format) {
	c := new(Chunk)
	s.cut(format, func() *Chunk { return c }, func(c *Chunk) bool {
		c.parse()
		return s.sendChunk(c)
	})
}

// sendChunk hands over fingerprints and skips as the records that they are, in order.
func (s *source) sendChunk(c *Chunk) bool {
	next, stop := iter.Pull(c.Skips())
	defer stop()
	skip, more := next()
	for i, fp := range c.Fingerprints {
		rec := Record{Kind: Fingerprint, Fingerprint: fp, Key: c.Key(i), Offset: c.offset + 8*int64(i)}
		if c.lines != nil {
			rec.Offset = c.offset + int64(c.lines[i].begin)
		}
		for ; more && skip.Offset < rec.Offset; skip, more = next() {
			if !s.send(&skip) {
				return false
			}
		}
		if !s.send(&rec) {
			return false
		}
	}
	for ; more; skip, more = next() {
		if !s.send(&skip) {
			return false
		}
	}
	return true
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
func (c *Chunk) reset(s *source, format Format) {
	*c = Chunk{
		Source: s.name, opts: &s.opts, format: format, input: s.input, first: 1,
		Fingerprints: c.Fingerprints[:0], lines: c.lines[:0], bad: c.bad[:0], buffer: c.buffer,
	}
	if format == U64LE {
		c.lines = nil
	}
}

// cut cuts a file into chunks, which it gets from fresh and hands over unparsed, until give
// is false.
func (s *source) cut(format Format, fresh func() *Chunk, give func(*Chunk) bool) {
	l := &listCutter{source: s, format: format, number: 1}
	for c := fresh(); l.next(c) && give(c) && !l.ended; {
		c = fresh()
	}
}

// listCutter is what is known of a list between two chunks.
type listCutter struct {
	*source
	format Format
	number uint64 // of the next line or word
	offset int64  // of the next chunk
	rest   []byte // what was read of it: the beginning of a line or a word
	ended  bool
}

// next reads the next chunk. It is false at the end.
func (l *listCutter) next(c *Chunk) bool {
	c.reset(l.source, l.format)
	c.first, c.offset = l.number, l.offset
	if c.buffer == nil {
		c.buffer = make([]byte, maxListLine+chunkBytes)
	}
	n := copy(c.buffer, l.rest)
	whole := 0 // bytes of whole lines or words
	for whole == 0 && n <= maxListLine+len("\r\n") {
		got := l.w.read(c.buffer[n:min(max(n+1, chunkBytes), len(c.buffer))])
		if got == 0 {
			return l.last(c, n)
		}
		if l.format == U64LE {
			whole = (n + got) &^ 7
		} else if end := bytes.LastIndexByte(c.buffer[n:n+got], '\n'); end >= 0 {
			whole = n + end + 1
		}
		n += got
	}
	l.rest = append(l.rest[:0], c.buffer[whole:n]...)
	if whole == 0 { // the line is too long
		_, size, _ := l.w.line(nil, 0)
		l.rest = l.rest[:0]
		l.skip(c, tooLarge(int64(n)+size, maxListLine))
		l.number++
		l.offset += int64(n) + size
		return true
	}
	l.take(c, whole)
	return true
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

func (l *listCutter) skip(c *Chunk, skip Skip) {
	c.end = &Record{Source: l.name, Number: int64(l.number), Offset: l.offset, Skip: &skip}
}

// last makes a chunk of the end of a file, behind n bytes that are no whole line or word.
func (l *listCutter) last(c *Chunk, n int) bool {
	l.ended = true
	switch corruption := l.w.corruption(); {
	case l.ctx.Err() != nil: // that ended the file
		return false
	case corruption != nil:
		l.skip(c, *corruption.skip("; what follows was not read"))
	case n == 0:
		return false
	case l.format == U64LE:
		l.skip(c, Skip{Reason: "truncated fingerprint", Detail: fmt.Sprintf("%d bytes at the end: want 8", n), Document: true, Broken: true})
	default:
		l.take(c, n)
	}
	return true
}
