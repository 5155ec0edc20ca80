package corpus

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"strconv"

	"github.com/neardup/neardup/fingerprint"
)

// maxListLine bounds a line of a list of fingerprints: its key is a URL.
const maxListLine = 1 << 20

// Chunk is fingerprints that follow each other in a list, and what there is between them
// that is none.
type Chunk struct {
	Source       string // as in Record
	Fingerprints []fingerprint.Fingerprint

	format  Format
	input   int    // of the Reader
	first   uint64 // number of the first line or word, from 1
	offset  int64  // where the chunk begins
	text    []byte // what was read; or, of JSON lines, all keys
	lines   []listLine
	bad     []listLine // lines that are no fingerprints
	skips   []Record   // of JSON lines, and of the end of a list
	buffer  []byte     // that text is in
	counted bool
}

// listLine is a line of a chunk: where it is in the text, and its number, less the first.
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
	return c.keyOf(&c.lines[i])
}

func (c *Chunk) keyOf(l *listLine) string {
	key := string(c.text[l.key:l.end])
	if c.format == JSONL {
		return key
	}
	return UnquoteKey(key)
}

// Skips gives what is no fingerprint, in order.
func (c *Chunk) Skips() iter.Seq[Record] {
	return func(yield func(Record) bool) {
		for i := range c.bad {
			if !yield(c.badLine(&c.bad[i])) {
				return
			}
		}
		for _, rec := range c.skips {
			if !yield(rec) {
				return
			}
		}
	}
}

// badLine is the record of a line that is no fingerprint.
func (c *Chunk) badLine(l *listLine) Record {
	rec := Record{Source: c.Source, Number: int64(c.first) + int64(l.number), Offset: c.offset + int64(l.begin)}
	line := c.text[l.begin:l.end]
	if len(line) > maxListLine {
		skip := tooLarge(int64(len(line)), maxListLine)
		rec.Skip = &skip
		return rec
	}
	_, _, err := parseListLine(c.format, line)
	rec.Key = c.keyOf(l)
	rec.Skip = &Skip{Reason: "bad fingerprint", Detail: err.Error(), Document: true, Err: err}
	return rec
}

// records gives fingerprints and skips as the records that they are, in order.
func (c *Chunk) records(yield func(*Record) bool) {
	bad := c.bad
	for i, fp := range c.Fingerprints {
		rec := Record{Kind: Fingerprint, Fingerprint: fp, Offset: c.offset + 8*int64(i)}
		if c.lines != nil {
			l := &c.lines[i]
			for ; len(bad) > 0 && bad[0].number < l.number; bad = bad[1:] {
				skip := c.badLine(&bad[0])
				if !yield(&skip) {
					return
				}
			}
			rec.Offset, rec.Key = c.offset+int64(l.begin), c.keyOf(l)
		}
		if !yield(&rec) {
			return
		}
	}
	rest := Chunk{Source: c.Source, format: c.format, first: c.first, offset: c.offset, text: c.text, bad: bad, skips: c.skips}
	for rec := range rest.Skips() {
		if !yield(&rec) {
			return
		}
	}
}

// parse finds the fingerprints in the text.
func (c *Chunk) parse() {
	if c.format == U64LE {
		for text := c.text; len(text) >= 8; text = text[8:] {
			c.Fingerprints = append(c.Fingerprints, fingerprint.Fingerprint(binary.LittleEndian.Uint64(text)))
		}
		return
	}
	begin := 0
	for number := uint32(0); begin < len(c.text); number++ {
		end, next := len(c.text), len(c.text)
		if n := bytes.IndexByte(c.text[begin:], '\n'); n >= 0 {
			end, next = begin+n, begin+n+1
		}
		if number == 0 && c.offset == 0 && bytes.HasPrefix(c.text, byteOrderMark) {
			begin += len(byteOrderMark)
		}
		if end > begin && c.text[end-1] == '\r' {
			end--
		}
		c.parseLine(listLine{number: number, begin: uint32(begin), end: uint32(end)})
		begin = next
	}
}

var byteOrderMark = []byte("\xef\xbb\xbf")

func (c *Chunk) parseLine(l listLine) {
	line := c.text[l.begin:l.end]
	if len(line) == 0 || c.format == Decimal && len(bytes.TrimSpace(line)) == 0 {
		return
	}
	l.key = l.end
	if len(line) > maxListLine {
		c.bad = append(c.bad, l)
		return
	}
	fp, key, err := parseListLine(c.format, line)
	l.key = l.end - uint32(len(key))
	if err != nil {
		c.bad = append(c.bad, l)
		return
	}
	c.Fingerprints, c.lines = append(c.Fingerprints, fp), append(c.lines, l)
}

// parseListLine takes a line apart.
func parseListLine(format Format, line []byte) (fp fingerprint.Fingerprint, key []byte, err error) {
	if format == Decimal {
		fp, err = parseDecimal(line)
		return fp, nil, err
	}
	digits, key, _ := bytes.Cut(line, []byte{'\t'})
	if fp, ok := parseHex(digits); ok {
		return fp, key, nil
	}
	fp, err = fingerprint.Parse(string(digits[:min(len(digits), 64)]))
	return fp, key, err
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

// ErrNotFingerprint is matched by the error of a document in a list of fingerprints.
var ErrNotFingerprint = errors.New("a document in a list of fingerprints")

// addRecord takes in a record of JSON lines.
func (c *Chunk) addRecord(rec *Record) error {
	switch {
	case rec.Skip != nil:
		c.skips = append(c.skips, *rec)
		return nil
	case rec.Kind != Fingerprint:
		return fmt.Errorf("%w: %s record %d byte %d is a text; add and dedup read it", ErrNotFingerprint, rec.Source, rec.Number, rec.Offset)
	}
	begin := uint32(len(c.text))
	c.text = append(c.text, rec.Key...)
	c.Fingerprints = append(c.Fingerprints, rec.Fingerprint)
	c.lines = append(c.lines, listLine{number: uint32(rec.Number - int64(c.first)), key: begin, end: uint32(len(c.text))})
	return nil
}

func tooLarge(size, limit int64) Skip {
	return Skip{Reason: "too large", Detail: fmt.Sprintf("%d bytes, limit %d", size, limit), Document: true}
}
