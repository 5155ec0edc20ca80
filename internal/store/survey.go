package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/cockroachdb/pebble/v2"
)

// Fault is something in a store that cannot be read, or does not follow docs/format.md.
type Fault struct {
	Unreadable bool   // the bytes cannot be had at all; not set: they are wrong
	Keyspace   string // as docs/format.md names it, or "file"
	Key        []byte // of the entry, or the first that may be missing; the name of a file
	Err        error  // Is ErrCorrupt
}

// Survey reads a store that may be damaged, of one moment: what it yields can be read
// and follows the format by itself, and everything else is told as a fault and passed
// over. It is for one goroutine.
type Survey struct {
	ctx    context.Context
	base   *pebble.Iterator
	report func(Fault)
	tell   func() // for each entry read; nil: nobody asks
	lost   map[byte]bool
}

// Survey looks at what the view sees. report gets every fault as it is found; tell, if
// it is not nil, is called for every entry.
func (v *View) Survey(ctx context.Context, report func(Fault), tell func()) *Survey {
	return &Survey{ctx: ctx, base: v.it, report: report, tell: tell, lost: map[byte]bool{}}
}

var keyspaceNames = map[byte]string{
	metaKeyspace: "meta", clockKeyspace: "clock", documentKeyspace: "document", keyKeyspace: "key",
	tableKeyspace: "table", packedKeyspace: "packed", directoryKeyspace: "directory", filterKeyspace: "filter",
}

// Complete reports whether everything of the keyspaces was read that was asked for.
func (s *Survey) Complete(keyspaces ...string) bool {
	for keyspace := range s.lost {
		if slices.Contains(keyspaces, keyspaceNames[keyspace]) {
			return false
		}
	}
	return true
}

func (s *Survey) fault(unreadable bool, key []byte, err error) {
	name := "unknown"
	if len(key) > 0 {
		s.lost[key[0]] = true
		if known := keyspaceNames[key[0]]; known != "" {
			name = known
		}
	}
	s.report(Fault{unreadable, name, bytes.Clone(key), err})
}

// scan yields the entries from a key to the one before end. Where the store cannot be
// read it goes on behind. Keys begin with first, but for a number of width bytes at its
// end. Error: ctx's.
func (s *Survey) scan(first, end []byte, width int, yield func(key, value []byte) bool) error {
	it, err := s.base.Clone(pebble.CloneOptions{})
	if err != nil {
		return classify(err)
	}
	defer it.Close() // what it has to say was asked for
	at := bytes.Clone(first)
	before, gap := uint64(0), uint64(1) // the number of the last key, and how far apart they are
	ok := it.First()                    // Pebble does not seek the empty key under the race detector
	if len(at) > 0 {
		ok = it.SeekGE(at)
	}
	for n := 0; ; n++ {
		if n%1024 == 0 && s.ctx.Err() != nil {
			return s.ctx.Err()
		}
		if !ok {
			if err := it.Error(); err == nil {
				return nil
			} else if ok = s.resume(it, at, end, width, gap, err); !ok {
				return s.ctx.Err()
			}
		}
		key := it.Key()
		if bytes.Compare(key, end) >= 0 {
			return nil
		}
		value, err := it.ValueAndErr()
		if err != nil {
			s.fault(true, key, corrupt(err))
		} else if s.tell != nil {
			s.tell()
		}
		if err == nil && !yield(key, value) {
			return nil
		}
		at = append(append(at[:0], key...), 0)
		if width > 0 && len(key) == keyLen(key[0]) {
			n := numberOf(key, len(key)-width, width)
			before, gap = n, max(n-before, 1)
		}
		ok = it.Next()
	}
}

// corrupt makes ErrCorrupt of whatever keeps something from being read.
func corrupt(err error) error {
	if err = classify(err); err == nil || errors.Is(err, ErrCorrupt) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrCorrupt, err)
}

// resume moves an iterator that failed to the first entry behind what it cannot read,
// and reports what that is. It takes ever larger steps until a seek does not fail, and
// then halves them, so that what lies between two damaged places is passed over only
// where it is shorter than the first of them. A seek that fails is slow: Pebble looks
// for a flipped bit in the block. So it stops at about the distance between two keys,
// and goes backwards from there.
func (s *Survey) resume(it *pebble.Iterator, at, end []byte, width int, gap uint64, err error) bool {
	fail := func(to []byte) {
		s.fault(true, at, fmt.Errorf("%w (nothing from key %x up to %x)", corrupt(err), at, to))
	}
	prefix := 0
	if width > 0 {
		prefix = keyLen(at[0]) - width
	}
	if width == 0 || len(at) < prefix {
		fail(end)
		return false
	}
	key := func(n uint64) []byte {
		full := binary.BigEndian.AppendUint64(nil, n)
		return append(bytes.Clone(at[:prefix]), full[8-width:]...)
	}
	seek := func(n uint64) bool { it.SeekGE(key(n)); return it.Error() == nil }

	bad, most := numberOf(at, prefix, width), uint64(math.MaxUint64)>>(64-8*width)
	good, found := most, false
	for step := gap; !found && step <= most-bad; step *= 4 {
		good, found = bad+step, seek(bad+step)
		if !found {
			bad = good
		}
		if step > most/4 {
			break
		}
	}
	if !found {
		if good = most; !seek(most) {
			fail(end)
			return false
		}
	}
	for good-bad > gap {
		if middle := bad + (good-bad)/2; seek(middle) {
			good = middle
		} else {
			bad = middle
		}
	}
	to := key(good)
	it.SeekLT(to)
	for it.Valid() && bytes.Compare(it.Key(), at) >= 0 {
		to = append(to[:0], it.Key()...)
		it.Prev()
	}
	fail(to)
	return it.SeekGE(to)
}

// numberOf reads the number that a key has behind a prefix, as far as it is there.
func numberOf(key []byte, prefix, width int) (n uint64) {
	for i := range width {
		n <<= 8
		if prefix+i < len(key) {
			n |= uint64(key[prefix+i])
		}
	}
	return n
}

// keyLen returns how long the keys of a keyspace are; 0 for those of any length.
func keyLen(keyspace byte) int {
	switch keyspace {
	case clockKeyspace, documentKeyspace, keyKeyspace:
		return uint64KeyLen
	case tableKeyspace, packedKeyspace:
		return tableKeyLen
	case directoryKeyspace, filterKeyspace:
		return chunkKeyLen
	}
	return 0
}
