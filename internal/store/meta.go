package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// Format is the number of the format that this version writes, FormatOldest
// the oldest that it reads (docs/format.md).
const (
	Format       = 4
	FormatOldest = 1
)

const magic = "neardup\n"

// Header is what an index was made with.
type Header struct {
	Plan     string // see docs/format.md, Plan
	Analyzer string // "": not known
}

// Counters change with every commit.
type Counters struct {
	NextID    uint64 // the ID that the next document gets
	Documents uint64 // live documents
	Bare      uint64 // those of them that have no record
}

const countersLen = 3 * 8

func (c Counters) encode() []byte {
	value := make([]byte, 0, countersLen)
	for _, v := range [...]uint64{c.NextID, c.Documents, c.Bare} {
		value = binary.BigEndian.AppendUint64(value, v)
	}
	return value
}

func decodeCounters(value []byte) (Counters, error) {
	if len(value) != countersLen {
		return Counters{}, fmt.Errorf("%w: counters have %d bytes, not %d", ErrCorrupt, len(value), countersLen)
	}
	c := Counters{
		NextID:    binary.BigEndian.Uint64(value),
		Documents: binary.BigEndian.Uint64(value[8:]),
		Bare:      binary.BigEndian.Uint64(value[16:]),
	}
	if c.NextID == 0 || c.Documents >= c.NextID || c.Bare > c.Documents {
		return Counters{}, fmt.Errorf("%w: counters %+v", ErrCorrupt, c)
	}
	return c, nil
}

func encodeFormat() []byte {
	return binary.BigEndian.AppendUint32([]byte(magic), Format)
}

func checkFormat(value []byte) (version uint32, err error) {
	if !bytes.HasPrefix(value, []byte(magic)) {
		return 0, fmt.Errorf("%w: it does not begin with our magic", ErrNotIndex)
	}
	if len(value) != len(magic)+4 {
		return 0, fmt.Errorf("%w: format entry of %d bytes", ErrCorrupt, len(value))
	}
	version = binary.BigEndian.Uint32(value[len(magic):])
	if version < FormatOldest || version > Format {
		return 0, fmt.Errorf("%w %d: this version reads %d to %d", ErrVersion, version, FormatOldest, Format)
	}
	return version, nil
}

// raiseFormat marks an index of an older format as one of this format, before
// anything is written that the older one does not have.
func (s *Store) raiseFormat() error {
	if s.format == Format {
		return nil
	}
	batch := s.db.NewBatch()
	if err := batch.Set(metaKey("format"), encodeFormat(), nil); err != nil {
		return errors.Join(err, batch.Close())
	}
	s.format = Format
	return s.commit(batch)
}

// readMeta reads one meta entry; found is false where there is none.
func (s *Store) readMeta(name string) (value []byte, found bool, err error) {
	value, closer, err := s.db.Get(metaKey(name))
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("meta entry %q: %w", name, classify(err))
	}
	value = bytes.Clone(value)
	return value, true, closer.Close()
}

// loadMeta checks the format and reads header and counters. It reports false
// for a database that has no entry at all: one that was being made when the
// machine stopped.
func (s *Store) loadMeta() (bool, error) {
	format, found, err := s.readMeta("format")
	if err != nil {
		return false, err
	}
	if !found {
		empty, err := s.empty()
		if err == nil && !empty {
			err = fmt.Errorf("%w: a Pebble database of another kind", ErrNotIndex)
		}
		return false, err
	}
	if s.format, err = checkFormat(format); err != nil {
		return false, err
	}
	for _, entry := range [...]struct {
		name string
		load func([]byte) error
	}{
		{"plan", func(v []byte) error { s.header.Plan = string(v); return nil }},
		{"analyzer", func(v []byte) error { s.header.Analyzer = string(v); return nil }},
		{"counters", func(v []byte) (err error) { s.counters, err = decodeCounters(v); return err }},
	} {
		value, found, err := s.readMeta(entry.name)
		if err == nil && !found {
			err = fmt.Errorf("%w: meta entry %q is missing", ErrCorrupt, entry.name)
		}
		if err == nil {
			err = entry.load(value)
		}
		if err != nil {
			return false, err
		}
	}
	return true, nil
}

// create writes the meta entries of a new index in one commit.
func (s *Store) create(h Header) error {
	s.header, s.counters, s.format = h, Counters{NextID: 1}, Format
	batch := s.db.NewBatch()
	for _, entry := range [...]struct {
		name  string
		value []byte
	}{
		{"format", encodeFormat()},
		{"plan", []byte(h.Plan)},
		{"analyzer", []byte(h.Analyzer)},
		{"counters", s.counters.encode()},
	} {
		if err := batch.Set(metaKey(entry.name), entry.value, nil); err != nil {
			return errors.Join(err, batch.Close())
		}
	}
	if err := s.commit(batch); err != nil {
		return err
	}
	// Pebble begins the first log before it knows its format, so chunks there do not tell
	// what was synced before them. The next one is better.
	return s.fail(s.guard(s.db.Flush))
}
