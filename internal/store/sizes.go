package store

import (
	"context"
	"errors"
	"iter"
	"math"

	"github.com/cockroachdb/pebble/v2"
)

// Meta returns what meta said when the store was opened, or what it was made with.
func (s *Store) Meta() Meta { return s.meta }

// Format returns the number of the format that the index is in.
func (s *Store) Format() int { return int(s.meta.Format) }

// Header returns what the store was made with.
func (s *Store) Header() Header { return *s.meta.Header }

// Counters returns the counters as they were when the store was opened.
func (s *Store) Counters() Counters { return *s.meta.Counters }

// DiskBytes returns the bytes that the store takes on disk, its log included.
func (s *Store) DiskBytes() uint64 { return s.metrics().DiskSpaceUsage() }

// CachedBytes returns what Pebble's cache holds.
func (s *Store) CachedBytes() int64 { return s.metrics().BlockCache.Size }

// metrics are Pebble's, as they were last when the store has failed.
func (s *Store) metrics() *pebble.Metrics {
	s.guard(func() error {
		s.lastMetrics.Store(s.db.Metrics())
		return nil
	})
	if m := s.lastMetrics.Load(); m != nil {
		return m
	}
	return &pebble.Metrics{}
}

// PackedNextID returns the ID that the first document after the last compaction got.
func (s *Store) PackedNextID() uint64 { return s.meta.NextID }

// Generation counts how many times the tables were packed.
func (s *Store) Generation() uint64 { return s.meta.Generation }

// packedCacheBytes returns how much of the memory for caches is for packed blocks: what
// they take with their overhead, but leave a quarter to Pebble.
func packedCacheBytes(tables []PackedTableInfo, total int64) int64 {
	want := 0.0
	for _, t := range tables {
		want += 1.25*float64(t.Bytes) + 64*float64(t.Blocks)
	}
	return int64(min(want, float64(total/4*3)))
}

// PackedMemory returns the memory that the directories and the blocks in memory take.
func (s *Store) PackedMemory() (directory, cached int64) {
	for _, p := range s.packed {
		directory += p.RAMBytes()
	}
	if s.cache != nil {
		cached = s.cache.Bytes()
	}
	return directory, cached
}

// Packed returns the packed part of a table, nil if there is none.
func (s *Store) Packed(table int) *PackedTable {
	if table >= len(s.packed) {
		return nil
	}
	return s.packed[table]
}

// PackedEntries returns the number of fingerprints that are packed.
func (s *Store) PackedEntries() uint64 {
	if len(s.meta.Packed) == 0 {
		return 0
	}
	return s.meta.Packed[0].Entries
}

// PackedInfo returns what the last compaction left of each table; nothing if there
// was none.
func (s *Store) PackedInfo() []PackedTableInfo { return s.meta.Packed }

// FilterChunks yields the saved prefix filter of a table, or of KeyFilterTable, chunk
// by chunk, each good until the next.
func (s *Store) FilterChunks(table int) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		v, err := s.View()
		if err != nil {
			yield(nil, err)
			return
		}
		defer v.Close()
		v.FilterChunks(table)(yield)
	}
}

// PackedCached returns which part of the bytes of all packed tables is in memory, 0 to 1.
func (s *Store) PackedCached() float64 {
	total := uint64(0)
	for _, info := range s.meta.Packed {
		total += info.Bytes
	}
	if total == 0 || s.cache == nil {
		return 1
	}
	return min(1, float64(s.cache.Bytes())/float64(total))
}

// CompactRecords rewrites everything but the tables: it drops what was deleted or
// replaced, and leaves every key on Pebble's lowest level. It needs up to as much free
// disk as the records take. When ctx ends it, nothing is lost.
func (s *Store) CompactRecords(ctx context.Context) error {
	if err := s.writable(); err != nil {
		return err
	}
	return translateError(s.guard(func() error { return s.db.Compact(ctx, []byte{0}, []byte{tableKeyspace}, true) }))
}

// HasLive reports whether there is any live entry.
func (s *Store) HasLive() (live bool, err error) {
	v, err := s.View()
	if err != nil {
		return false, err
	}
	err = v.Scan(0, 0, math.MaxUint64, func(uint64) bool { live = true; return false })
	return live, errors.Join(err, v.Close())
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
	// The block before may end anywhere up to the first key of the table, so that would be in it.
	first := append(tableStart(keyspace, table), 0, 0, 0, 0)
	bytes, err := s.db.EstimateDiskUsage(first, tableEnd(keyspace, table))
	return bytes, translateError(err)
}
