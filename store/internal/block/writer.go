package block

import (
	"errors"
	"fmt"
)

// defaultBytes is the size of a block in the paper (section 3.2).
const defaultBytes = 1024

// maxBytes is small enough for lengths inside a block to have two bytes.
const minBytes, maxBytes = 64, 1 << 15

// Options configures a Writer.
type Options struct {
	// Bytes is the largest size of a block of several fingerprints, from 64 to 32768. If it is 0,
	// the size is 1024, as in the paper.
	Bytes    int
	Postings bool // blocks of table 0
}

// Writer divides the ascending fingerprints of a table into blocks. Each block holds as
// many fingerprints as fit. A Writer is not safe for concurrent use.
type Writer struct {
	opts     Options
	emit     func(last uint64, block []byte) error
	fps      []uint64
	postings []posting
	layout   slotLayout
	block    []byte
	entries  uint64 // fingerprints added so far
	err      error
}

// NewWriter returns a Writer that calls emit with each block and its key, which is the last
// fingerprint. The bytes are valid until emit returns.
func NewWriter(opts Options, emit func(last uint64, block []byte) error) *Writer {
	if opts.Bytes == 0 {
		opts.Bytes = defaultBytes
	}
	opts.Bytes = min(max(opts.Bytes, minBytes), maxBytes)
	return &Writer{opts: opts, emit: emit}
}

// Add adds the next fingerprint of a table without postings.
func (w *Writer) Add(fp uint64) error {
	if w.opts.Postings {
		return errors.New("fingerprint without posting in a table with postings")
	}
	return w.add(fp, posting{})
}

// AddPosting adds the next fingerprint of a table with postings, and the IDs of its documents, at
// least one.
func (w *Writer) AddPosting(fp uint64, ids IDs) error {
	if !w.opts.Postings {
		return errors.New("posting in a table without postings")
	}
	p, err := newPosting(ids)
	if err != nil {
		return fmt.Errorf("fingerprint %016x: %w", fp, err)
	}
	return w.add(fp, p)
}

func (w *Writer) add(fp uint64, p posting) error {
	if w.err != nil {
		return w.err
	}
	layout := w.layout.with(p)
	if n := len(w.fps); n > 0 {
		if previous := w.fps[n-1]; fp <= previous {
			return fmt.Errorf("%w: %016x follows %016x", errContent, fp, previous)
		}
		size := eliasFanoSize(n+1, w.fps[0], fp)
		if w.opts.Postings {
			size += layout.size()
		}
		if n == MaxLen || size > w.opts.Bytes {
			if err := w.Flush(); err != nil {
				return err
			}
			layout = w.layout.with(p)
		}
	}
	w.fps = append(w.fps, fp)
	w.entries++
	if w.opts.Postings {
		w.postings = append(w.postings, p)
		w.layout = layout
	}
	return nil
}

// Flush emits the current block, if it has fingerprints. It must be called after the last
// fingerprint. It returns the error of emit, as does every later call of Add, AddPosting and Flush.
func (w *Writer) Flush() error {
	if w.err != nil || len(w.fps) == 0 {
		return w.err
	}
	if w.opts.Postings {
		w.block = appendPostings(appendEliasFano(w.block[:0], w.fps, withPostings), w.postings)
	} else {
		w.block = appendEliasFano(w.block[:0], w.fps, 0)
	}
	last := w.fps[len(w.fps)-1]
	w.fps, w.postings, w.layout = w.fps[:0], w.postings[:0], slotLayout{}
	w.err = w.emit(last, w.block)
	return w.err
}

// Entries returns the number of fingerprints that were added.
func (w *Writer) Entries() uint64 { return w.entries }
