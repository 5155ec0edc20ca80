package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/neardup/neardup/cmd/neardup/corpus"
	"github.com/neardup/neardup/fingerprint"
)

// collection is a file of fingerprints that is read once from beginning to end, on all
// cores where it can be: lines of a fingerprint, or fingerprint TAB key, or 8 bytes
// little-endian each. Compressed files, and standard input, are read by one goroutine.
type collection struct {
	call   *call
	name   string
	format corpus.Format // Detect: by name and content
}

// part is a run of fingerprints of a collection.
type part struct {
	fps     []uint64
	numbers []uint64 // of the line or the record, from 1; nil: they follow first
	first   uint64
	text    []byte   // that the keys are in
	keys    []uint64 // where: begin<<32 | end; nil: there are none
}

// number returns the place of a fingerprint in its collection, from 1.
func (p *part) number(i int) uint64 {
	if p.numbers == nil {
		return p.first + uint64(i)
	}
	return p.numbers[i]
}

func (p *part) key(i int) string {
	if p.keys == nil {
		return ""
	}
	return corpus.UnquoteKey(string(p.text[p.keys[i]>>32 : uint32(p.keys[i])]))
}

// addKey gives the next fingerprint the key that stands in the text from begin to end.
func (p *part) addKey(begin, end int) {
	p.keys = append(p.keys, uint64(begin)<<32|uint64(end))
}

const (
	// segmentBytes is what one goroutine reads at once.
	segmentBytes = 2 << 20
	// maxListLine bounds a line, as it does in other inputs. A segment holds one at least.
	maxListLine = 1 << 20
)

// each calls do with all parts, from several goroutines and in no order, and returns
// the number of fingerprints. What is no fingerprint is reported and counted.
func (c *collection) each(ctx context.Context, do func(*part) error) (n int64, err error) {
	f, size, format, err := c.open()
	if err != nil {
		return 0, err
	}
	if f == nil {
		return c.eachRecord(ctx, do)
	}
	defer f.Close()
	r := &segments{collection: c, file: f, size: size, lines: format == corpus.Fingerprints, bytes: segmentBytes, do: do}
	err = r.run(ctx)
	if skipped := r.skipped.Load(); err == nil {
		c.call.logf("%s: %d fingerprints, %d skipped", c.name, r.read.Load(), skipped)
	}
	return r.read.Load(), err
}

// open opens a file that can be read in parts. There is none if it must be read as a stream.
func (c *collection) open() (f *os.File, size int64, format corpus.Format, err error) {
	if c.name == "-" {
		return nil, 0, c.format, nil
	}
	if f, err = os.Open(c.name); err != nil {
		return nil, 0, c.format, err
	}
	info, err := f.Stat()
	if err == nil {
		format, err = c.plainFormat(f)
	}
	if err == nil && info.Mode().IsRegular() && format != corpus.Detect {
		return f, info.Size(), format, nil
	}
	return nil, 0, c.format, errors.Join(err, f.Close())
}

// plainFormat returns the format of a file that is not compressed, if that is one of
// the two which can be read in parts.
func (c *collection) plainFormat(f *os.File) (corpus.Format, error) {
	var begin [4]byte
	n, err := f.ReadAt(begin[:], 0)
	if err != nil && err != io.EOF {
		return corpus.Detect, err
	}
	for _, magic := range []string{"\x1f\x8b", "\x28\xb5\x2f\xfd"} {
		// A list of numbers may begin with any bytes: its name decides.
		if bytes.HasPrefix(begin[:n], []byte(magic)) && !c.isWords() {
			return corpus.Detect, nil
		}
	}
	switch {
	case c.isWords():
		return corpus.U64LE, nil
	case c.format == corpus.Fingerprints:
		return c.format, nil
	case c.format == corpus.Detect && !strings.HasSuffix(c.name, ".jsonl"):
		return corpus.Fingerprints, nil
	}
	return corpus.Detect, nil
}

// isWords reports whether it is 8 bytes little-endian each, uncompressed.
func (c *collection) isWords() bool {
	suffix := "." + string(corpus.U64LE)
	return strings.HasSuffix(c.name, suffix) && (c.format == corpus.Detect || c.format == corpus.U64LE) ||
		c.format == corpus.U64LE && !strings.HasSuffix(c.name, suffix+".gz") && !strings.HasSuffix(c.name, suffix+".zst")
}

// eachRecord reads whatever it is as a stream.
func (c *collection) eachRecord(ctx context.Context, do func(*part) error) (n int64, err error) {
	reader, err := corpus.New([]string{c.name}, corpus.Options{Format: c.format, Stdin: c.call.in})
	if err != nil {
		return 0, err
	}
	defer c.call.account(reader)
	const together = 8192
	p := &part{}
	for r, err := range reader.Records(ctx) {
		switch {
		case err != nil:
			return n, err
		case r.Skip != nil:
			c.call.logf("%s record %d: skipped: %s", c.name, r.Number, r.Skip)
			continue
		case r.Kind != corpus.Fingerprint:
			return n, fmt.Errorf("%s record %d is a text: -scan reads ready fingerprints", c.name, r.Number)
		}
		p.fps = append(p.fps, uint64(r.Fingerprint))
		p.numbers = append(p.numbers, uint64(r.Number))
		begin := len(p.text)
		p.text = append(p.text, r.Key...)
		p.addKey(begin, len(p.text))
		if n++; len(p.fps) == together {
			if err := do(p); err != nil {
				return n, err
			}
			p = &part{}
		}
	}
	return n, errors.Join(ctx.Err(), do(p))
}

// segments reads a file in segments on all cores.
type segments struct {
	*collection
	file  *os.File
	size  int64
	lines bool
	bytes int // of a segment
	do    func(*part) error

	mu     sync.Mutex // for what follows
	next   int64      // where the next segment begins
	number uint64     // of its first line or record
	failed error

	read, skipped atomic.Int64
}

func (s *segments) run(ctx context.Context) error {
	var wg sync.WaitGroup
	s.number = 1
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			buf := make([]byte, s.bytes)
			p := new(part)
			for {
				segment, first, offset, err := s.take(ctx, buf)
				if err == nil && segment != nil {
					*p = part{fps: p.fps[:0], first: first, text: segment}
					if s.lines {
						s.parseLines(p, segment, offset)
					} else {
						s.parseWords(p, segment, offset)
					}
					s.read.Add(int64(len(p.fps)))
					err = s.do(p)
				}
				if err != nil {
					s.fail(err)
				}
				if err != nil || segment == nil {
					return
				}
			}
		})
	}
	wg.Wait()
	return s.failed
}

func (s *segments) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed == nil {
		s.failed = err
	}
}

// take reads the next segment: whole lines, or whole words. It is nil at the end.
func (s *segments) take(ctx context.Context, buf []byte) (segment []byte, first uint64, offset int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed != nil || s.next >= s.size {
		return nil, 0, 0, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, 0, 0, err
	}
	n, err := s.file.ReadAt(buf, s.next)
	if err != nil && err != io.EOF || n == 0 {
		return nil, 0, 0, fmt.Errorf("%s at byte %d: %w", s.name, s.next, err)
	}
	segment, first, offset = buf[:n], s.number, s.next
	atEnd := s.next+int64(n) >= s.size
	if s.lines && !atEnd {
		if segment = segment[:bytes.LastIndexByte(segment, '\n')+1]; len(segment) == 0 {
			return nil, 0, 0, fmt.Errorf("%s at byte %d: a line of more than %d bytes", s.name, s.next, maxListLine)
		}
	}
	s.next += int64(len(segment))
	if s.lines {
		s.number += uint64(bytes.Count(segment, []byte{'\n'}))
	} else {
		s.number += uint64(len(segment) / 8)
	}
	return segment, first, offset, nil
}

func (s *segments) parseWords(p *part, segment []byte, offset int64) {
	for ; len(segment) >= 8; segment = segment[8:] {
		p.fps = append(p.fps, binary.LittleEndian.Uint64(segment))
	}
	if len(segment) > 0 {
		s.skip(offset+int64(8*len(p.fps)), fmt.Sprintf("truncated fingerprint: %d bytes at the end: want 8", len(segment)))
	}
}

// parseLines takes the fingerprints of lines, and their numbers. Blank lines count as
// lines, and are not reported.
func (s *segments) parseLines(p *part, segment []byte, offset int64) {
	p.numbers = make([]uint64, 0, len(segment)/17+1)
	end := 0
	for number := p.first; end < len(segment); number++ {
		begin := end
		line, _, ended := bytes.Cut(segment[begin:], []byte{'\n'})
		if end += len(line); ended {
			end++
		}
		if number == 1 && bytes.HasPrefix(line, []byte("\xef\xbb\xbf")) {
			line, begin = line[3:], begin+3
		}
		if line = bytes.TrimSuffix(line, []byte{'\r'}); len(line) == 0 {
			continue
		}
		digits, key, keyed := bytes.Cut(line, []byte{'\t'})
		fp, ok := parseHex(digits)
		if !ok {
			parsed, err := fingerprint.Parse(string(digits[:min(len(digits), 64)]))
			if err != nil {
				s.skip(offset+int64(begin), "bad fingerprint: "+err.Error())
				continue
			}
			fp = uint64(parsed)
		}
		if keyed && p.keys == nil {
			p.keys = make([]uint64, len(p.fps), cap(p.numbers))
		}
		p.fps, p.numbers = append(p.fps, fp), append(p.numbers, number)
		if p.keys != nil {
			p.addKey(begin+len(line)-len(key), begin+len(line))
		}
	}
}

// parseHex reads 16 digits; all else is left to fingerprint.Parse.
func parseHex(digits []byte) (fp uint64, ok bool) {
	if len(digits) != 16 {
		return 0, false
	}
	for _, d := range digits {
		v := hexDigits[d]
		if v > 15 {
			return 0, false
		}
		fp = fp<<4 | uint64(v)
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

// maxSkipLines bounds the lines about single skips: a file of another kind has millions.
const maxSkipLines = 10

func (s *segments) skip(offset int64, why string) {
	if n := s.skipped.Add(1); n <= maxSkipLines {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.call.logf("%s byte %d: skipped: %s", s.name, offset, why)
	}
}
