package corpus

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"strings"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/internal/ordered"
)

const (
	// maxListLine bounds a line of a list of fingerprints. Its key is a URL.
	maxListLine = 1 << 20
	// chunkBytes is the size at which a chunk of a list ends. It is small because each line may be
	// a skip, which takes several hundred bytes.
	chunkBytes = 64 << 10
)

// ErrNotFingerprint is matched by the error for a document in a list of fingerprints.
var ErrNotFingerprint = errors.New("a document in a list of fingerprints")

// Chunk has consecutive fingerprints of a list, and the skips between them. One goroutine cuts a
// list into chunks, and any number of goroutines parse them.
type Chunk struct {
	Source       string // as in Record
	Fingerprints []fingerprint.Fingerprint

	opts     *Options
	format   Format
	notation notation // of Fingerprints
	first    uint64   // number of the first line or word, from 1
	offset   int64    // of the chunk in the list
	text     []byte
	lines    []listLine // of the fingerprints; nil if the format is U64LE
	skips    []Record
	end      *Record // the skip that ends the file, or nil
	err      error   // matches ErrNotFingerprint if the list has a document
}

// listLine is the position of a line in its chunk, and its key as it is written.
type listLine struct {
	number, offset uint32
	key            string
}

// Number returns the number of the line or word of a fingerprint in its file, from 1.
func (c *Chunk) Number(i int) uint64 {
	if c.lines == nil {
		return c.first + uint64(i)
	}
	return c.first + uint64(c.lines[i].number)
}

// Key returns the key of a fingerprint, or "" if it has none.
func (c *Chunk) Key(i int) string {
	if c.lines == nil {
		return ""
	}
	return UnquoteKey(c.lines[i].key)
}

// Skips returns the lines that are not fingerprints, in order.
func (c *Chunk) Skips() []Record { return c.skips }

// parse sets the fingerprints and the skips.
func (c *Chunk) parse() {
	if c.format == U64LE {
		c.Fingerprints = make([]fingerprint.Fingerprint, 0, len(c.text)/8)
		for text := c.text; len(text) >= 8; text = text[8:] {
			word := binary.LittleEndian.Uint64(text)
			c.Fingerprints = append(c.Fingerprints, fingerprint.Fingerprint(word))
		}
	} else {
		c.parseLines()
	}
	if c.end != nil {
		c.skips = append(c.skips, *c.end)
	}
}

func (c *Chunk) parseLines() {
	n := bytes.Count(c.text, []byte{'\n'}) + 1
	c.Fingerprints, c.lines = make([]fingerprint.Fingerprint, 0, n), make([]listLine, 0, n)
	var at listLine
	for line := range strings.Lines(string(c.text)) { // the keys are parts of this string
		size := len(line)
		line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
		if strings.TrimSpace(line) != "" {
			fp, key, skip := c.parseLine(line)
			at.key = key
			switch {
			case skip == nil:
				c.Fingerprints, c.lines = append(c.Fingerprints, fp), append(c.lines, at)
			case skip.Err == ErrNotFingerprint:
				c.err = fmt.Errorf("%w: %s line %d byte %d is a text: use dedup for texts",
					ErrNotFingerprint, c.Source, c.first+uint64(at.number),
					c.offset+int64(at.offset))
				return
			default:
				rec := c.skip(uint64(at.number), int64(at.offset), skip)
				rec.Key = UnquoteKey(key)
				c.skips = append(c.skips, *rec)
			}
		}
		at.number++
		at.offset += uint32(size)
	}
}

// skip returns a skip at a position in the chunk.
func (c *Chunk) skip(number uint64, offset int64, skip *Skip) *Record {
	return &Record{Source: c.Source, Number: int64(c.first + number),
		Offset: c.offset + offset, Skip: skip}
}

// parseLine parses a line, and returns the key as it is written. It returns a skip if the line is
// not a fingerprint.
func (c *Chunk) parseLine(line string) (fp fingerprint.Fingerprint, key string, skip *Skip) {
	var err error
	switch {
	case len(line) > maxListLine:
		return 0, "", tooLarge(maxListLine)
	case c.format == JSONL:
		var rec Record
		if rec.setJSON([]byte(line), c.opts, true); rec.Skip == nil && rec.Kind != Fingerprint {
			rec.Skip = &Skip{Err: ErrNotFingerprint}
		}
		return rec.Fingerprint, QuoteKey(rec.Key), rec.Skip
	case c.format == Decimal:
		fp, err = parseDecimal(line)
	default:
		line, key, _ = strings.Cut(line, "\t")
		fp, err = c.notation.parse(line)
	}
	if err != nil {
		skip = &Skip{Reason: BadFingerprint, Detail: err.Error(), Document: true, Err: err}
	}
	return fp, key, skip
}

// Chunks yields the fingerprints of all inputs, which are lists, in order. If Options.Format is
// Detect, a list is U64LE or JSONL if its extension or its first byte says so, or else
// Fingerprints. Lines that are not fingerprints are skips. If work is not nil, it is called with
// each chunk before the chunk is yielded, on several goroutines and in any order.
//
// An error ends the sequence: an error of RawRecords or of work, or a document in a list, which
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
		defer func() { go p.Stop(errStopped) }() // a pending read of a pipe may never return
		for {
			c, ok, err := p.Next()
			if ok {
				r.count(len(c.Fingerprints), c.skips...)
				err = c.err
			}
			if !ok && err == nil || !yield(c, err) || err != nil {
				return
			}
		}
	}
}

// readLists reads all inputs as lists. It yields their chunks unparsed until yield returns false.
func (r *Reader) readLists(ctx context.Context, yield func(*Chunk) bool) error {
	run := &run{Reader: r, ctx: ctx}
	run.read = func(s *source) {
		s.chunks(s.listFormat(), func(c *Chunk) bool {
			s.stopped = !yield(c)
			return !s.stopped
		})
	}
	run.yield = func(u *RawRecord) bool { // a file that cannot be read
		return yield(&Chunk{Source: u.record.Source, skips: []Record{u.record}})
	}
	return run.readAll()
}

// listFormat returns the format of a list according to Options.Format, its name or its first byte.
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

// list reads a list as records.
func (s *source) list(format Format) {
	s.chunks(format, func(c *Chunk) bool {
		c.parse()
		skips := c.skips
		for i, fp := range c.Fingerprints {
			rec := Record{Kind: Fingerprint, Fingerprint: fp, Key: c.Key(i),
				Offset: c.offset + 8*int64(i)}
			if c.lines != nil {
				rec.Offset = c.offset + int64(c.lines[i].offset)
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
	})
}

// chunks cuts a list into chunks. It yields them unparsed until yield returns false.
func (s *source) chunks(format Format, yield func(*Chunk) bool) {
	if format != U64LE {
		s.w.skipMark()
	}
	var number uint64 = 1
	n := unknownNotation
	for more := true; more; {
		c := &Chunk{Source: s.name, opts: &s.opts, format: format, first: number,
			offset: s.w.pos}
		if format == U64LE {
			more = s.readWords(c)
			number += uint64(len(c.text) / 8)
		} else {
			var lines uint64
			lines, more = s.readLines(c, format == Fingerprints && n == unknownNotation)
			number += lines
		}
		if format == Fingerprints && n == unknownNotation {
			n, _ = notationOf(firstLines(string(c.text), notationLines, true))
		}
		c.notation = n
		if s.ctx.Err() != nil || (len(c.text) > 0 || c.end != nil) && !yield(c) {
			return
		}
	}
}

// readWords reads fingerprints of 8 bytes into a chunk. It returns false at the end of the file.
func (s *source) readWords(c *Chunk) (more bool) {
	c.text = make([]byte, 0, chunkBytes)
	for len(c.text) < chunkBytes {
		part := s.w.chunk()
		if len(part) == 0 {
			whole := len(c.text) &^ 7
			if corruption := s.w.corruption(); corruption != nil {
				c.end = c.skip(uint64(whole/8), int64(whole), corruption.skip())
			} else if rest := len(c.text) - whole; rest > 0 {
				detail := fmt.Sprintf("%d bytes at the end: want 8", rest)
				c.end = c.skip(uint64(whole/8), int64(whole),
					&Skip{Reason: "truncated fingerprint", Detail: detail,
						Document: true, Broken: true})
			}
			return false
		}
		part = part[:min(len(part), chunkBytes-len(c.text))]
		c.text = append(c.text, part...)
		s.w.advance(len(part))
		if len(c.text)%8 == 0 && s.w.isEmpty() { // the input may be slow
			break
		}
	}
	return true
}

// readLines reads lines into a chunk. If undecided is true, a chunk of a slow input does not end
// before its lines determine the notation. It returns the number of lines, and false at the end of
// the file.
func (s *source) readLines(c *Chunk, undecided bool) (lines uint64, more bool) {
	const limit = maxListLine + len("\r\n")
	for len(c.text) < chunkBytes {
		start, available := len(c.text), s.w.chunk()
		end := bytes.LastIndexByte(available, '\n') + 1
		if end > 0 {
			c.text = append(c.text, available[:end]...)
			lines += uint64(bytes.Count(available[:end], []byte{'\n'}))
			s.w.advance(end)
		} else {
			text, size, whole := s.w.line(c.text, start+limit)
			if corruption := s.w.src.corruption(); !whole && corruption != nil {
				c.end = c.skip(lines, int64(start), corruption.skip())
				return lines, false
			}
			if size == 0 {
				return lines, false
			}
			c.text = text
			lines++
			if size > int64(limit) { // the rest of the line is not in the text
				c.text = append(c.text, '\n')
				break
			}
		}
		if undecided && (end > 0 || s.w.isEmpty()) {
			_, sure := notationOf(firstLines(string(c.text), notationLines, true))
			undecided = !sure
		}
		if !undecided && (end > 0 || s.w.isEmpty()) { // the input may be slow
			break
		}
	}
	return lines, true
}
