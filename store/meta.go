package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/neardup/neardup/internal/fault"
)

// Format is the number of the storage format (docs/format.md). Open refuses other numbers.
const Format = 1

const magic = "neardup\n"

// metaNames are the names of the meta entries, in the order in which they are written and read.
var metaNames = [...]string{"format", "plan", "analyzer", "counters", "packed", "epochs", "crowded"}

// Header describes how an index was created.
type Header struct {
	Plan     string // see docs/format.md, Plan
	Analyzer string // "": not known
}

// Counters change with every commit.
type Counters struct {
	NextID    uint64 // the ID that the next document gets
	Documents uint64 // documents that have not been removed
	Bare      uint64 // documents without a record
}

const countersLen = 3 * 8

func (c Counters) encode() []byte { return appendUint64s(nil, c.NextID, c.Documents, c.Bare) }

func appendUint64s(dst []byte, values ...uint64) []byte {
	for _, v := range values {
		dst = binary.BigEndian.AppendUint64(dst, v)
	}
	return dst
}

func decodeCounters(value []byte) (Counters, error) {
	if len(value) != countersLen {
		return Counters{}, fmt.Errorf("%w: counters have %d bytes, not %d", fault.ErrCorrupt,
			len(value), countersLen)
	}
	c := Counters{
		NextID:    binary.BigEndian.Uint64(value),
		Documents: binary.BigEndian.Uint64(value[8:]),
		Bare:      binary.BigEndian.Uint64(value[16:]),
	}
	if c.NextID == 0 || c.Documents >= c.NextID || c.Bare > c.Documents {
		return Counters{}, fmt.Errorf("%w: counters %+v", fault.ErrCorrupt, c)
	}
	return c, nil
}

const (
	tableInfoLen = 3 * 8

	maxPackedBytes = 1 << 46 // per table, so that the sum of all tables does not overflow
)

func (p packing) encode() []byte {
	value := appendUint64s(nil, p.generation, p.nextID)
	for _, t := range p.tables {
		value = appendUint64s(value, t.Entries, t.Blocks, t.Bytes)
	}
	return value
}

func decodePacking(value []byte) (p packing, err error) {
	if len(value) < 16+tableInfoLen || (len(value)-16)%tableInfoLen != 0 {
		return packing{}, fmt.Errorf("%w: meta entry \"packed\" of %d bytes", fault.ErrCorrupt,
			len(value))
	}
	p.generation, p.nextID, value = binary.BigEndian.Uint64(value),
		binary.BigEndian.Uint64(value[8:]), value[16:]
	for ; len(value) > 0; value = value[tableInfoLen:] {
		p.tables = append(p.tables, tableInfo{
			Entries: binary.BigEndian.Uint64(value),
			Blocks:  binary.BigEndian.Uint64(value[8:]),
			Bytes:   binary.BigEndian.Uint64(value[16:]),
		})
	}
	for i, t := range p.tables {
		if p.generation == 0 || p.nextID == 0 || t.Entries != p.tables[0].Entries ||
			t.Blocks > t.Entries || (t.Blocks == 0) != (t.Entries == 0) ||
			t.Bytes > maxPackedBytes {
			return packing{}, fmt.Errorf("%w: generation %d, packed table %d of %+v",
				fault.ErrCorrupt, p.generation, i, t)
		}
	}
	return p, nil
}

// decodeIDs reads a list of document IDs.
func decodeIDs(value []byte) (ids []uint64, err error) {
	if len(value)%8 != 0 {
		return nil, fmt.Errorf("%w: a list of IDs of %d bytes", fault.ErrCorrupt, len(value))
	}
	for ; len(value) > 0; value = value[8:] {
		ids = append(ids, binary.BigEndian.Uint64(value))
	}
	return ids, nil
}

func encodeFormat() []byte {
	return binary.BigEndian.AppendUint32([]byte(magic), Format)
}

func checkFormat(value []byte) (version uint32, err error) {
	if !bytes.HasPrefix(value, []byte(magic)) {
		return 0, fmt.Errorf("%w: its format entry does not begin with \"neardup\"",
			fault.ErrNotIndex)
	}
	if len(value) != len(magic)+4 {
		return 0, fmt.Errorf("%w: format entry of %d bytes", fault.ErrCorrupt, len(value))
	}
	version = binary.BigEndian.Uint32(value[len(magic):])
	if version != Format {
		return 0, fmt.Errorf("%w %d: this version reads format %d", fault.ErrVersion,
			version, Format)
	}
	return version, nil
}

// SetAnalyzer writes the analyzer of an index that has none yet. It is durable.
func (s *Store) SetAnalyzer(name string) error {
	if err := s.writable(); err != nil {
		return err
	}
	s.meta.Header.Analyzer = name
	return s.commitMeta(map[string][]byte{"analyzer": []byte(name)})
}

// commitMeta writes meta entries in one commit.
func (s *Store) commitMeta(values map[string][]byte) error {
	batch := s.db.NewBatch()
	for _, name := range metaNames {
		if value, found := values[name]; found {
			if err := batch.Set(metaKey(name), value, nil); err != nil {
				return errors.Join(err, batch.Close())
			}
		}
	}
	return s.commit(batch)
}

// Meta is the entries of the meta keyspace.
type Meta struct {
	Format   uint32
	Header   Header
	Counters Counters

	// IDs of the documents that most different texts of their own site are duplicates of
	Crowded []uint64

	packing packing
	epochs  epochs
}

// set decodes the value of an entry.
func (m *Meta) set(name string, value []byte) (err error) {
	switch name {
	case "format":
		m.Format, err = checkFormat(value)
	case "plan":
		m.Header.Plan = string(value)
	case "analyzer":
		m.Header.Analyzer = string(value)
	case "counters":
		m.Counters, err = decodeCounters(value)
	case "packed":
		m.packing, err = decodePacking(value)
	case "epochs":
		m.epochs, err = decodeEpochs(value)
	case "crowded":
		m.Crowded, err = decodeIDs(value)
	}
	return err
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
			err = m.set(name, value)
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

// create writes the meta entries of a new index in one commit.
func (s *Store) create(h Header) error {
	s.meta = Meta{Format: Format, Header: h, Counters: Counters{NextID: 1}}
	if err := s.commitMeta(map[string][]byte{
		"format":   encodeFormat(),
		"plan":     []byte(h.Plan),
		"analyzer": []byte(h.Analyzer),
		"counters": s.meta.Counters.encode(),
	}); err != nil {
		return err
	}
	// Pebble starts the first log before it knows its format version. Chunks of that log do not
	// record which bytes were synced before them. A flush starts the next log.
	return s.fail(s.guard(s.db.Flush))
}

// Meta returns the meta entries as they were when the store was opened or created, with the
// analyzer of SetAnalyzer.
func (s *Store) Meta() Meta { return s.meta }

// Header returns the plan and the analyzer of Meta.
func (s *Store) Header() Header { return s.meta.Header }

// Counters returns the counters of Meta.
func (s *Store) Counters() Counters { return s.meta.Counters }
