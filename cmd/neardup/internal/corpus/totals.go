package corpus

import (
	"errors"
	"fmt"
	"maps"
	"sync"
)

// maxReasons bounds the distinct reasons that are counted apart: reasons
// quote media types and encodings, which the input chooses.
const maxReasons = 200

// otherReasons counts skips beyond maxReasons.
const otherReasons = "other reasons"

// ErrBroken is matched by the error of Reader.Broken.
var ErrBroken = errors.New("broken input")

// Totals counts what was read. Records == Documents + the sum of Skipped.
type Totals struct {
	Input     string           // as it was given to New; a folder is one
	Files     int64            // files opened; standard input is one
	Records   int64            // all records
	Documents int64            // records without a Skip
	Skipped   map[string]int64 // skips by reason
}

func (t *Totals) count(rec *Record) {
	t.Records++
	if rec.Skip == nil {
		t.Documents++
		return
	}
	reason := rec.Skip.Reason
	if _, known := t.Skipped[reason]; !known && len(t.Skipped) >= maxReasons {
		reason = otherReasons
	}
	if t.Skipped == nil {
		t.Skipped = make(map[string]int64)
	}
	t.Skipped[reason]++
}

// Skips is the number of records that are no documents.
func (t Totals) Skips() int64 { return t.Records - t.Documents }

// counter is the Totals of each input, for concurrent use.
type counter struct {
	mu     sync.Mutex
	inputs []Totals
	places int64   // that are broken
	broken *Record // the first of them
}

func (c *counter) count(input int, rec *Record) {
	c.mu.Lock()
	c.inputs[input].count(rec)
	if rec.Skip != nil && rec.Skip.Broken {
		if c.places++; c.places == 1 {
			first := *rec
			c.broken = &first
		}
	}
	c.mu.Unlock()
}

// brokenError says where the first file is broken.
type brokenError struct {
	first  Record
	places int64
}

func (e *brokenError) Error() string {
	s := fmt.Sprintf("%v: %s byte %d: %v", ErrBroken, e.first.Source, e.first.Offset, e.first.Skip)
	if e.places > 1 {
		s += fmt.Sprintf(" (and in %d more places)", e.places-1)
	}
	return s
}

func (e *brokenError) Unwrap() []error { return []error{ErrBroken, e.first.Skip.Err} }

func (c *counter) err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken == nil {
		return nil
	}
	return &brokenError{*c.broken, c.places}
}

// countChunk counts the records of a chunk.
func (c *counter) countChunk(chunk *Chunk) {
	n := int64(len(chunk.Fingerprints))
	c.mu.Lock()
	c.inputs[chunk.input].Records += n
	c.inputs[chunk.input].Documents += n
	c.mu.Unlock()
	for rec := range chunk.Skips() {
		c.count(chunk.input, &rec)
	}
}

func (c *counter) countFile(input int) {
	c.mu.Lock()
	c.inputs[input].Files++
	c.mu.Unlock()
}

func (c *counter) byInput() []Totals {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]Totals, len(c.inputs))
	for i, t := range c.inputs {
		t.Skipped = maps.Clone(t.Skipped)
		out[i] = t
	}
	return out
}
