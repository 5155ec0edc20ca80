package store

import (
	"errors"
	"fmt"
)

// Meta is what the meta keyspace says, as far as it could be read.
type Meta struct {
	Format   uint32    // 0: not known
	Header   *Header   // nil: its plan is not known
	Counters *Counters // nil: not known

	Generation uint64 // of the packed tables; 0: none, or not known
	NextID     uint64 // when they were packed
	Packed     []PackedTableInfo
}

// Meta reads the meta keyspace.
func (s *Survey) Meta() (m Meta, err error) {
	var plan, analyzer *string
	readers := map[string]func([]byte) error{
		"format":   func(v []byte) (err error) { m.Format, err = checkFormat(v); return err },
		"plan":     func(v []byte) error { plan = new(string(v)); return nil },
		"analyzer": func(v []byte) error { analyzer = new(string(v)); return nil },
		"counters": func(v []byte) error {
			c, err := decodeCounters(v)
			if err == nil {
				m.Counters = &c
			}
			return err
		},
		"packed": func(v []byte) (err error) {
			m.Generation, m.NextID, m.Packed, err = decodePacked(v)
			return err
		},
	}
	missing := map[string]bool{"format": true, "plan": true, "analyzer": true, "counters": true}
	err = s.scan([]byte{metaKeyspace}, []byte{metaKeyspace + 1}, 0, func(key, value []byte) bool {
		name := string(key[1:])
		delete(missing, name)
		read, known := readers[name]
		err := fmt.Errorf("%w: there is no such meta entry", ErrCorrupt)
		if known {
			err = read(value)
		}
		if err != nil {
			s.fault(false, key, corruptMeta(err))
		}
		return true
	})
	for name := range missing {
		s.fault(false, metaKey(name), fmt.Errorf("%w: meta entry %q is missing", ErrCorrupt, name))
	}
	if plan != nil {
		m.Header = &Header{Plan: *plan}
		if analyzer != nil {
			m.Header.Analyzer = *analyzer
		}
	}
	return m, err
}

func corruptMeta(err error) error {
	if errors.Is(err, ErrCorrupt) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrCorrupt, err)
}
