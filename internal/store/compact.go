package store

import (
	"context"
	"encoding/binary"
)

// CompactRecords rewrites everything but the tables: it drops what was deleted or
// replaced, and leaves every key on Pebble's lowest level. It needs up to as much free
// disk as the records take. When ctx ends it, nothing is lost.
func (s *Store) CompactRecords(ctx context.Context) error {
	if err := s.writable(); err != nil {
		return err
	}
	return classify(s.guard(func() error { return s.db.Compact(ctx, []byte{0}, []byte{tableKeyspace}, true) }))
}

// HasLive reports whether there is any live entry.
func (s *Store) HasLive() (live bool, err error) {
	v, err := s.View()
	if err != nil {
		return false, err
	}
	for range v.LiveStored() {
		live = true
		break
	}
	return live, v.Close()
}

// TableBytes returns what the entries of a table take on disk, about, live and packed,
// with the directory.
func (s *Store) TableBytes(table int) (bytes uint64, err error) {
	for _, keyspace := range [...]byte{tableKeyspace, packedKeyspace, directoryKeyspace} {
		n, err := s.rangeBytes(keyspace, table)
		if err != nil {
			return 0, err
		}
		bytes += n
	}
	return bytes, nil
}

// FilterBytes returns what the saved prefix filter of a table takes on disk.
func (s *Store) FilterBytes(table int) (uint64, error) { return s.rangeBytes(filterKeyspace, table) }

func (s *Store) rangeBytes(keyspace byte, table int) (uint64, error) {
	bound := func(table int) []byte { return binary.BigEndian.AppendUint16([]byte{keyspace}, uint16(table)) }
	end := []byte{keyspace + 1}
	if table+1 < MaxTables {
		end = bound(table + 1)
	}
	// The block before may end anywhere up to bound(table), so that would be in it.
	bytes, err := s.db.EstimateDiskUsage(binary.BigEndian.AppendUint32(bound(table), 0), end)
	return bytes, classify(err)
}
