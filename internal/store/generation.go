package store

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

const packedTableInfoLen = 3 * 8

func encodePacked(generation, nextID uint64, tables []PackedTableInfo) []byte {
	value := binary.BigEndian.AppendUint64(nil, generation)
	value = binary.BigEndian.AppendUint64(value, nextID)
	for _, t := range tables {
		for _, v := range [...]uint64{t.Entries, t.Blocks, t.Bytes} {
			value = binary.BigEndian.AppendUint64(value, v)
		}
	}
	return value
}

func decodePacked(value []byte) (generation, nextID uint64, tables []PackedTableInfo, err error) {
	if len(value) < 16+packedTableInfoLen || (len(value)-16)%packedTableInfoLen != 0 {
		return 0, 0, nil, fmt.Errorf("%w: meta entry \"packed\" of %d bytes", ErrCorrupt, len(value))
	}
	generation, nextID, value = binary.BigEndian.Uint64(value), binary.BigEndian.Uint64(value[8:]), value[16:]
	for ; len(value) > 0; value = value[packedTableInfoLen:] {
		tables = append(tables, PackedTableInfo{
			Entries: binary.BigEndian.Uint64(value),
			Blocks:  binary.BigEndian.Uint64(value[8:]),
			Bytes:   binary.BigEndian.Uint64(value[16:]),
		})
	}
	for i, t := range tables {
		if generation == 0 || nextID == 0 || t.Entries != tables[0].Entries || t.Blocks > t.Entries || (t.Blocks == 0) != (t.Entries == 0) {
			return 0, 0, nil, fmt.Errorf("%w: generation %d, packed table %d of %+v", ErrCorrupt, generation, i, t)
		}
	}
	return generation, nextID, tables, nil
}

// loadPacked opens the packed tables, if there are any.
func (s *Store) loadPacked(opts Options) error {
	value, found, err := s.readMeta("packed")
	if err != nil || !found {
		return err
	}
	if s.generation, s.packedNextID, s.infos, err = decodePacked(value); err != nil {
		return err
	}
	limit := packedCacheBytes(s.infos, cacheBytes(opts))
	s.cache, s.unreserve = newBlockCache(limit), s.options.Cache.Reserve(int(limit))
	for i, info := range s.infos {
		p, err := openPackedTable(i, info.Entries, info.Blocks, s.cache, s.get)
		if err != nil {
			return err
		}
		s.packed = append(s.packed, p)
	}
	return nil
}

// PackedNextID returns the ID that the first document after the last compaction got.
func (s *Store) PackedNextID() uint64 { return s.packedNextID }

// Generation counts how many times the tables were packed.
func (s *Store) Generation() uint64 { return s.generation }

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
	if s.generation == 0 {
		return 0
	}
	return s.infos[0].Entries
}

// PackedInfo returns what the last compaction left of each table; nothing if there
// was none.
func (s *Store) PackedInfo() []PackedTableInfo { return s.infos }

// FilterChunks yields the saved prefix filter of a table, or of KeyFilterTable, chunk
// by chunk.
func (s *Store) FilterChunks(table int) func(yield func([]byte, error) bool) {
	return func(yield func([]byte, error) bool) {
		for chunk := 0; ; chunk++ {
			var key [chunkKeyLen]byte
			putChunkKey(key[:], filterKeyspace, table, chunk)
			value, closer, err := s.db.Get(key[:])
			if errors.Is(err, pebble.ErrNotFound) {
				return
			}
			if err != nil {
				yield(nil, classify(err))
				return
			}
			goOn := yield(value, nil)
			if err := closer.Close(); err != nil && goOn {
				yield(nil, classify(err))
				return
			}
			if !goOn {
				return
			}
		}
	}
}
