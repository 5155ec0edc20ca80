package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/neardup/neardup/internal/fault"
)

// Format is the number of the storage format (docs/format.md). Open refuses other numbers.
const Format = 1

const magic = "neardup\n"

// metaNames are the names of the meta entries, in the order in which they are read.
var metaNames = [...]string{"format", "plan", "analyzer", "counters", "packed", "epochs", "crowded"}

// Meta is the entries of the meta keyspace.
type Meta struct {
	Plan     string // see docs/format.md, Plan
	Analyzer string // "": not known
	Counters Counters

	// IDs of the documents with the most different texts of their own site as duplicates
	Crowded []uint64

	packing packing
	epochs  epochs
}

// Counters change with every commit.
type Counters struct {
	NextID    uint64 // the ID of the next document
	Documents uint64 // documents that have not been removed
	Bare      uint64 // documents without a record
}

func (c Counters) check() error {
	if c.NextID == 0 || c.Documents >= c.NextID || c.Bare > c.Documents {
		return fmt.Errorf("%w: counters %+v", fault.ErrCorrupt, c)
	}
	return nil
}

const maxPackedBytes = 1 << 46 // per table, so that the sum of all tables does not overflow

func (p packing) check() error {
	for i, t := range p.tables {
		if p.generation == 0 || p.nextID == 0 || t.Entries != p.tables[0].Entries ||
			t.Blocks > t.Entries || (t.Blocks == 0) != (t.Entries == 0) ||
			t.Bytes > maxPackedBytes {
			return fmt.Errorf("%w: generation %d, packed table %d of %+v", fault.ErrCorrupt,
				p.generation, i, t)
		}
	}
	return nil
}

// encode returns the value of an entry.
func (m *Meta) encode(name string) (value []byte) {
	switch name {
	case "format":
		return binary.BigEndian.AppendUint32([]byte(magic), Format)
	case "plan":
		return []byte(m.Plan)
	case "analyzer":
		return []byte(m.Analyzer)
	case "counters":
		return appendUint64s(nil, m.Counters.NextID, m.Counters.Documents, m.Counters.Bare)
	case "epochs":
		return appendUint64s(nil, m.epochs.first, m.epochs.last)
	case "crowded":
		return appendUint64s(nil, m.Crowded...)
	}
	value = appendUint64s(nil, m.packing.generation, m.packing.nextID)
	for _, t := range m.packing.tables {
		value = appendUint64s(value, t.Entries, t.Blocks, t.Bytes)
	}
	return value
}

func appendUint64s(dst []byte, values ...uint64) []byte {
	for _, v := range values {
		dst = binary.BigEndian.AppendUint64(dst, v)
	}
	return dst
}

// decode sets the field of an entry to its value.
func (m *Meta) decode(name string, value []byte) error {
	switch name {
	case "format":
		return checkFormat(value)
	case "plan":
		m.Plan = string(value)
		return nil
	case "analyzer":
		m.Analyzer = string(value)
		return nil
	}
	var numbers []uint64
	rest := value
	for ; len(rest) >= 8; rest = rest[8:] {
		numbers = append(numbers, binary.BigEndian.Uint64(rest))
	}
	n := len(numbers)
	switch {
	case len(rest) > 0:
	case name == "counters" && n == 3:
		m.Counters = Counters{numbers[0], numbers[1], numbers[2]}
		return m.Counters.check()
	case name == "epochs" && n == 2:
		m.epochs = epochs{numbers[0], numbers[1]}
		return m.epochs.check()
	case name == "crowded":
		m.Crowded = numbers
		return nil
	case name == "packed" && n >= 5 && n%3 == 2:
		m.packing = packing{generation: numbers[0], nextID: numbers[1]}
		for t := range slices.Chunk(numbers[2:], 3) {
			m.packing.tables = append(m.packing.tables, tableInfo{t[0], t[1], t[2]})
		}
		return m.packing.check()
	}
	return fmt.Errorf("%w: meta entry %q of %d bytes", fault.ErrCorrupt, name, len(value))
}

func checkFormat(value []byte) error {
	if !bytes.HasPrefix(value, []byte(magic)) {
		return fmt.Errorf("%w: its format entry does not begin with \"neardup\"",
			fault.ErrNotIndex)
	}
	if len(value) != len(magic)+4 {
		return fmt.Errorf("%w: format entry of %d bytes", fault.ErrCorrupt, len(value))
	}
	if version := binary.BigEndian.Uint32(value[len(magic):]); version != Format {
		return fmt.Errorf("%w %d: this version reads format %d", fault.ErrVersion, version, Format)
	}
	return nil
}

// Meta reads the meta keyspace.
func (v *View) Meta() (m Meta, err error) {
	values := map[string][]byte{}
	if err := v.entries([]byte{metaKeyspace}, keyspaceEnd(metaKeyspace),
		func(key, value []byte) bool {
			values[string(key[1:])] = bytes.Clone(value)
			return true
		}); err != nil {
		return m, fmt.Errorf("meta entries: %w", err)
	}
	for _, name := range metaNames {
		value, found := values[name]
		switch {
		case found:
			err = m.decode(name, value)
		case name == "format":
			err = fmt.Errorf("%w: meta entry \"format\" is missing: a Pebble database of another "+
				"kind", fault.ErrNotIndex)
		case name != "packed" && name != "epochs" && name != "crowded":
			err = fmt.Errorf("%w: meta entry %q is missing", fault.ErrCorrupt, name)
		}
		if err != nil {
			return m, err
		}
	}
	return m, nil
}

// Meta returns the meta entries as they were when the store was opened or created, with the
// analyzer of SetAnalyzer.
func (s *Store) Meta() Meta { return s.meta }

// create writes the meta entries of a new index in one commit.
func (s *Store) create(plan, analyzer string) error {
	s.meta = Meta{Plan: plan, Analyzer: analyzer, Counters: Counters{NextID: 1}}
	if err := s.commitMeta("format", "plan", "analyzer", "counters"); err != nil {
		return err
	}
	// Pebble starts the first log before it knows its format version. Chunks of that log do not
	// record which bytes were synced before them. A flush starts the next log.
	return s.fail(s.guard(s.db.Flush))
}

// SetAnalyzer writes the analyzer of an index that has none yet. It is durable.
func (s *Store) SetAnalyzer(name string) error {
	if err := s.writable(); err != nil {
		return err
	}
	s.meta.Analyzer = name
	return s.commitMeta("analyzer")
}

// commitMeta writes entries of s.meta in one commit.
func (s *Store) commitMeta(names ...string) error {
	batch := s.db.NewBatch()
	for _, name := range names {
		if err := batch.Set(metaKey(name), s.meta.encode(name), nil); err != nil {
			return errors.Join(err, batch.Close())
		}
	}
	return s.commit(batch)
}
