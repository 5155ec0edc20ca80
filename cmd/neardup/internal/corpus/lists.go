package corpus

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/internal/ordered"
)

// Lists of fingerprints are read in chunks: one goroutine reads and cuts, at the end of a
// line or of a number, and any number of them parse.

const (
	// maxListLine bounds a line of a list of fingerprints: its key is a URL.
	maxListLine = 1 << 20
	// chunkBytes is how much of a list is read at once, where it can be had without waiting.
	// A skip takes some hundred bytes, and every line may be one.
	chunkBytes = 64 << 10
)

// ErrNotFingerprint is matched by the error of a document in a list of fingerprints.
var ErrNotFingerprint = errors.New("a document in a list of fingerprints")

// Chunk is fingerprints that follow each other in a list, and what there is between them
// that is none.
type Chunk struct {
	Source       string // as in Record
	Fingerprints []fingerprint.Fingerprint

	opts     *Options
	format   Format
	notation notation // of Fingerprints
	input    int      // of the Reader
	first    uint64   // number of the first line or word, from 1
	offset   int64    // where the chunk begins
	text     []byte   // bytes read
	places   []place  // of the fingerprints in lines
	keys     []string // the same
	skips    []Record
	err      error  // a document in the list
	buffer   []byte // that text is in
}

// place is where a line is in its chunk.
type place struct{ number, offset uint32 }

// Number is the place of a fingerprint in its input, from 1: that of its line, where it is
// in lines.
func (c *Chunk) Number(i int) uint64 {
	if len(c.places) == 0 {
		return c.first + uint64(i)
	}
	return c.first + uint64(c.places[i].number)
}

// Key is the key of a fingerprint; empty where there is none.
func (c *Chunk) Key(i int) string {
	if len(c.keys) == 0 {
		return ""
	}
	return UnquoteKey(c.keys[i])
}

// Skips are what is no fingerprint, in order.
func (c *Chunk) Skips() []Record { return c.skips }

// parse finds the fingerprints in the text. What ends it is in err.
func (c *Chunk) parse() {
	if c.format == U64LE {
		for text := c.text; len(text) >= 8; text = text[8:] {
			c.Fingerprints = append(c.Fingerprints, fingerprint.Fingerprint(binary.LittleEndian.Uint64(text)))
		}
		return
	}
	var at place
	for line := range strings.SplitSeq(string(c.text), "\n") { // keys are parts of this string
		next := place{at.number + 1, at.offset + uint32(len(line)) + 1}
		if at.number == 0 && c.offset == 0 {
			line = strings.TrimPrefix(line, byteOrderMark)
		}
		line = strings.TrimSuffix(line, "\r")
		if strings.TrimSpace(line) == "" {
			at = next
			continue
		}
		fp, key, skip := c.parseLine(line)
		switch {
		case skip == nil:
			c.Fingerprints, c.places, c.keys = append(c.Fingerprints, fp), append(c.places, at), append(c.keys, key)
		case skip.Err == ErrNotFingerprint:
			c.err = fmt.Errorf("%w: %s line %d byte %d is a text; add and dedup read it", ErrNotFingerprint, c.Source, c.first+uint64(at.number), c.offset+int64(at.offset))
			return
		default:
			c.skips = append(c.skips, Record{Source: c.Source, Number: int64(c.first) + int64(at.number), Offset: c.offset + int64(at.offset), Key: UnquoteKey(key), Skip: skip})
		}
		at = next
	}
}

// parseLine takes a line apart; its key is quoted. Or it says why the line is no fingerprint.
func (c *Chunk) parseLine(line string) (fp fingerprint.Fingerprint, key string, skip *Skip) {
	var err error
	switch {
	case len(line) > maxListLine:
		return 0, "", tooLarge(int64(len(line)), maxListLine)
	case c.format == JSONL:
		var rec Record
		if rec.setJSON([]byte(line), c.opts, true); rec.Skip == nil && rec.Kind != Fingerprint {
			rec.Skip = &Skip{Err: ErrNotFingerprint}
		}
		return rec.Fingerprint, QuoteKey(rec.Key), rec.Skip
	case c.format == Decimal:
		fp, err = parseDecimal(line)
	default:
		var word [8]byte
		if c.notation == hexNotation && (len(line) == 16 || len(line) > 16 && line[16] == '\t') {
			if _, bad := hex.Decode(word[:], []byte(line[:16])); bad == nil {
				return fingerprint.Fingerprint(binary.BigEndian.Uint64(word[:])), strings.TrimPrefix(line[16:], "\t"), nil // as most are
			}
		}
		var digits string
		digits, key, _ = strings.Cut(line, "\t")
		fp, err = c.notation.parse(digits)
	}
	if err != nil {
		skip = &Skip{Reason: BadFingerprint, Detail: err.Error(), Document: true, Err: err}
	}
	return fp, key, skip
}

// Chunks gives the fingerprints of all inputs, which are lists, in order; each chunk is good
// until the next. Where Options.Format is Detect, the name of a file tells what it is: .u64le,
// .jsonl, or else its first byte: { begins JSON lines, all else is lines of fingerprints. Lines that are no fingerprints are skips of their
// chunk. Before a chunk is given, work, unless it is nil, is called with it, on any core and in no
// order. An error ends the sequence: as in RawRecords, one of work, or a document in a list, which
// matches ErrNotFingerprint.
func (r *Reader) Chunks(ctx context.Context, work func(*Chunk) error) iter.Seq2[*Chunk, error] {
	return func(yield func(*Chunk, error) bool) {
		workers := runtime.GOMAXPROCS(0)
		p := ordered.New(ctx, workers, workers, func(p *ordered.Pipe[*Chunk]) error {
			return r.readLists(p.Context(), func(c *Chunk) bool {
				return p.Go(func(int) (*Chunk, error) {
					if c.parse(); c.err == nil && work != nil {
						return c, work(c)
					}
					return c, nil
				}) == nil
			})
		})
		defer func() { go p.Stop(errStopped) }() // a read of a pipe on which nothing comes does not end
		for {
			c, ok, err := p.Next()
			if ok {
				r.count(c.input, len(c.Fingerprints), c.skips...)
				err = c.err
			}
			if !ok && err == nil || !yield(c, err) || err != nil {
				return
			}
			freeChunks.Put(c)
		}
	}
}

// readLists reads all inputs as lists, into chunks that it hands over unparsed, until give is false.
func (r *Reader) readLists(ctx context.Context, give func(*Chunk) bool) error {
	run := &run{Reader: r, ctx: ctx}
	run.read = func(s *source) {
		s.cut(s.listFormat(), func(c *Chunk) bool {
			s.stopped = !give(c)
			return !s.stopped
		})
	}
	run.give = func(u *RawRecord) bool { // a file that cannot be read
		c := newChunk(&source{run: run, name: u.record.Source}, Detect)
		c.skips = append(c.skips, u.record)
		return give(c)
	}
	return run.readAll()
}

// list reads a file as records.
func (s *source) list(format Format) {
	s.cut(format, func(c *Chunk) bool {
		defer freeChunks.Put(c)
		c.parse()
		return s.sendChunk(c)
	})
}

// sendChunk hands over fingerprints and skips as the records that they are, in order.
func (s *source) sendChunk(c *Chunk) bool {
	skips := c.skips
	for i, fp := range c.Fingerprints {
		rec := Record{Kind: Fingerprint, Fingerprint: fp, Key: c.Key(i), Offset: c.offset + 8*int64(i)}
		if len(c.places) > 0 {
			rec.Offset = c.offset + int64(c.places[i].offset)
		}
		for ; len(skips) > 0 && skips[0].Offset < rec.Offset; skips = skips[1:] {
			if !s.send(&skips[0]) {
				return false
			}
		}
		if !s.send(&rec) {
			return false
		}
	}
	for i := range skips {
		if !s.send(&skips[i]) {
			return false
		}
	}
	return true
}

// listFormat is the format of a list by its name and its first byte, where it is not forced.
func (s *source) listFormat() Format {
	switch format := formatByName(s.name); {
	case s.opts.Format != Detect:
		return s.opts.Format
	case format == U64LE || format == JSONL:
		return format
	case bytes.HasPrefix(withoutSpace(s.w.chunk()), []byte("{")):
		return JSONL
	}
	return Fingerprints
}

// isWords reports whether the name of a file, or Options.Format, says that it is binary fingerprints, which
// may begin with any bytes. Standard input has no name.
func (o *Options) isWords(name string) bool {
	return o.Format == U64LE || o.Format == Detect && name != "-" && formatByName(name) == U64LE
}

// isRawWords reports whether a file is binary fingerprints that are not compressed, by its name. They may
// also begin with the bytes of a compressed file.
func (o *Options) isRawWords(name string) bool {
	return name != "-" && o.isWords(name) && !slices.Contains(compressions, path.Ext(strings.ToLower(name)))
}

// open returns the lookahead of a file of the given name.
func (o *Options) open(name string, file *countedFile) *lookahead {
	if slices.Contains(o.Originals, WARC) {
		file.keep = int(o.MaxDocument) + httpSlack
	}
	return newLookahead(newDecompressor(file, o.isRawWords(name)), o.isWords(name))
}

// freeChunks are to be read into again, which takes less than half of the time.
var freeChunks = sync.Pool{New: func() any { return new(Chunk) }}

func newChunk(s *source, format Format) *Chunk {
	c := freeChunks.Get().(*Chunk)
	*c = Chunk{
		Source: s.name, opts: &s.opts, format: format, input: s.input, first: 1,
		Fingerprints: c.Fingerprints[:0], places: c.places[:0], keys: c.keys[:0], skips: c.skips[:0], buffer: c.buffer[:0],
	}
	return c
}

// cut cuts a file into chunks, which it hands over unparsed, until give is false.
func (s *source) cut(format Format, give func(*Chunk) bool) {
	l := &listCutter{source: s, format: format, number: 1}
	for !l.ended {
		c := newChunk(s, format)
		if !l.next(c) || !give(c) {
			return
		}
	}
}

// listCutter is what is known of a list between two chunks.
type listCutter struct {
	*source
	format   Format
	notation notation // of Fingerprints
	number   uint64   // of the next line or word
	offset   int64    // of the next chunk
	rest     []byte   // the beginning of a line or a word
	ended    bool
}

// next reads the next chunk. It is false at the end.
func (l *listCutter) next(c *Chunk) bool {
	c.first, c.offset = l.number, l.offset
	c.buffer = append(c.buffer, l.rest...)
	whole := 0 // bytes of whole lines or words
	for whole == 0 && len(c.buffer) <= maxListLine+len("\r\n") || l.undecided(c) {
		n := len(c.buffer)
		c.buffer = slices.Grow(c.buffer, max(chunkBytes-n, 1))
		got, _ := l.w.Read(c.buffer[n:max(chunkBytes, n+1)])
		if got == 0 && whole > 0 && l.w.corruption() != nil {
			break
		}
		if got == 0 {
			return l.last(c, n)
		}
		c.buffer = c.buffer[:n+got]
		if l.format == U64LE {
			whole = len(c.buffer) &^ 7
		} else if end := bytes.LastIndexByte(c.buffer[n:], '\n'); end >= 0 {
			whole = n + end + 1
		}
	}
	n := len(c.buffer)
	l.rest = append(l.rest[:0], c.buffer[whole:]...)
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

// undecided reports whether more lines are needed to tell the notation of a list, and fit into its first
// chunk.
func (l *listCutter) undecided(c *Chunk) bool {
	if l.format != Fingerprints || l.notation != unknownNotation || len(c.buffer) >= chunkBytes {
		return false
	}
	_, sure := notationOf(firstLines(string(c.buffer), notationLines, false))
	return !sure
}

// take makes the first n bytes of the buffer the text of the chunk.
func (l *listCutter) take(c *Chunk, n int) {
	c.text = c.buffer[:n]
	if l.format == Fingerprints && l.notation == unknownNotation {
		l.notation, _ = notationOf(firstLines(string(c.text), notationLines, true))
	}
	c.notation = l.notation
	l.offset += int64(n)
	if l.format == U64LE {
		l.number += uint64(n / 8)
	} else {
		l.number += uint64(bytes.Count(c.text, []byte{'\n'}))
	}
}

func (l *listCutter) skip(c *Chunk, skip *Skip) {
	c.skips = append(c.skips, Record{Source: l.name, Number: int64(l.number), Offset: l.offset, Skip: skip})
}

// last makes a chunk of the end of a file, behind n bytes that are no whole line or word.
func (l *listCutter) last(c *Chunk, n int) bool {
	l.ended = true
	switch corruption := l.w.corruption(); {
	case l.ctx.Err() != nil: // that ended the file
		return false
	case corruption != nil:
		l.skip(c, corruption.skip())
	case n == 0:
		return false
	case l.format == U64LE:
		l.skip(c, &Skip{Reason: "truncated fingerprint", Detail: fmt.Sprintf("%d bytes at the end: want 8", n), Document: true, Broken: true})
	default:
		l.take(c, n)
	}
	return true
}
