package store

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/neardup/neardup/internal/store/block"
)

// numbers scans a keyspace whose keys are a number of 8 bytes.
func (s *Survey) numbers(keyspace byte, yield func(n uint64, key, value []byte) bool) error {
	return s.scan([]byte{keyspace}, []byte{keyspace + 1}, 8, func(key, value []byte) bool {
		n, err := uint64Of(key, uint64KeyLen)
		if err != nil {
			s.fault(false, key, err)
			return true
		}
		return yield(n, key, value)
	})
}

// Clock yields the entries of the clock in order.
func (s *Survey) Clock(yield func(first, seconds uint64) bool) error {
	return s.numbers(clockKeyspace, func(first uint64, key, value []byte) bool {
		if len(value) != 8 {
			s.fault(false, key, fmt.Errorf("%w: clock entry of %d bytes", ErrCorrupt, len(value)))
			return true
		}
		return yield(first, binary.BigEndian.Uint64(value))
	})
}

// Records yields the documents that have a record, by ID.
func (s *Survey) Records(yield func(DocumentRecord) bool) error {
	return s.numbers(documentKeyspace, func(id uint64, key, value []byte) bool {
		r, err := DecodeRecord(value)
		if err == nil && (id == 0 || r.Bare()) {
			err = fmt.Errorf("%w: document %d has a record with nothing in it, or no ID", ErrCorrupt, id)
		}
		if err != nil {
			s.fault(false, key, err)
			return true
		}
		return yield(DocumentRecord{id, r})
	})
}

// Keys yields the hash of every key with the documents that have it, by hash.
func (s *Survey) Keys(yield func(hash uint64, ids IDs) bool) error {
	return s.numbers(keyKeyspace, func(hash uint64, key, value []byte) bool {
		ids, err := block.DecodeIDs(value)
		if err == nil && ids.Empty() {
			err = fmt.Errorf("%w: no documents", ErrCorrupt)
		}
		if err != nil {
			s.fault(false, key, err)
			return true
		}
		return yield(hash, ids)
	})
}

// tableBounds are the first key of a table in a keyspace and the one behind its last.
func tableBounds(keyspace byte, table int) (first, end []byte) {
	first = binary.BigEndian.AppendUint16([]byte{keyspace}, uint16(table))
	if table == MaxTables {
		return first, []byte{keyspace + 1}
	}
	return first, binary.BigEndian.AppendUint16([]byte{keyspace}, uint16(table+1))
}

// live yields the live entries of a table in order.
func (s *Survey) live(table int, yield func(permuted uint64, key, value []byte) bool) error {
	first, end := tableBounds(tableKeyspace, table)
	return s.scan(first, end, 8, func(key, value []byte) bool {
		n, err := uint64Of(key, tableKeyLen)
		if err == nil && table > 0 && len(value) > 0 {
			err = fmt.Errorf("%w: a value of %d bytes", ErrCorrupt, len(value))
		}
		if err != nil {
			s.fault(false, key, err)
			return true
		}
		return yield(n, key, value)
	})
}

// Live yields the live entries of a table from 1 on, in order.
func (s *Survey) Live(table int, yield func(permuted uint64) bool) error {
	return s.live(table, func(permuted uint64, _, _ []byte) bool { return yield(permuted) })
}

// LivePostings yields the live fingerprints of table 0 in order, with the documents that
// each adds to those of its packed posting, and those that it removes.
func (s *Survey) LivePostings(yield func(stored uint64, added, removed IDs) bool) error {
	return s.live(0, func(stored uint64, key, value []byte) bool {
		added, removed, err := decodeChange(value)
		if err != nil {
			s.fault(false, key, err)
			return true
		}
		return yield(stored, added.Without(removed), removed)
	})
}

// checkBlock opens b over what is stored under a key of table, if it is whole and stands
// behind the block before it.
func (s *Survey) checkBlock(b *Block, table int, key, value, before []byte) error {
	if err := b.Open(value, nil); err != nil {
		return err
	}
	if err := b.Verify(); err != nil {
		return err
	}
	switch last := binary.BigEndian.Uint64(key[3:]); {
	case b.HasPostings() != (table == 0):
		return fmt.Errorf("%w: postings are for table 0 and no other", ErrCorrupt)
	case b.Last() != last:
		return fmt.Errorf("%w: the block ends with %016x", ErrCorrupt, b.Last())
	case len(before) > 0 && b.First() <= binary.BigEndian.Uint64(before[3:]):
		return fmt.Errorf("%w: the block begins with %016x, and the one before ends with %x", ErrCorrupt, b.First(), before[3:])
	}
	return nil
}

// Packed yields the packed blocks of a table in order, as far as they are whole. It
// returns what the meta entry packed should say of the table.
func (s *Survey) Packed(table int, yield func(*Block) bool) (info PackedTableInfo, err error) {
	var before []byte
	var b Block
	first, end := tableBounds(packedKeyspace, table)
	err = s.scan(first, end, 8, func(key, value []byte) bool {
		if len(key) != tableKeyLen {
			s.fault(false, key, fmt.Errorf("%w: key of %d bytes", ErrCorrupt, len(key)))
			return true
		}
		info.Blocks++
		info.Bytes += uint64(len(value))
		if err := s.checkBlock(&b, table, key, value, before); err != nil {
			s.fault(false, key, err)
			return true
		}
		before = append(before[:0], key...)
		info.Entries += uint64(b.Len())
		return yield(&b)
	})
	return info, err
}

// PackedPostings is Packed of table 0, one fingerprint with its documents after the other.
func (s *Survey) PackedPostings(yield func(stored uint64, ids IDs) bool) (PackedTableInfo, error) {
	var fps []uint64
	return s.Packed(0, func(b *Block) bool {
		fps = b.AppendTo(fps[:0])
		postings, err := b.Postings()
		for i := 0; err == nil && i < len(fps); i++ {
			var ids IDs
			if ids, err = postings.IDs(i); err == nil && !yield(fps[i], ids) {
				return false
			}
		}
		if err != nil { // as of Verify there is none
			s.report(Fault{false, "packed", nil, err})
		}
		return true
	})
}

// Directory reads the directory of a table and compares it with the keys of its blocks.
func (s *Survey) Directory(table int) error {
	var lasts []uint64
	chunks := 0
	first, end := tableBounds(directoryKeyspace, table)
	err := s.scan(first, end, 4, func(key, value []byte) bool {
		chunk, err := directoryChunkOf(key, value)
		if err == nil && int(binary.BigEndian.Uint32(key[3:])) != chunks {
			err = fmt.Errorf("%w: it comes as chunk %d", ErrCorrupt, chunks)
		}
		if err == nil && chunks > 0 && len(lasts)%directoryChunk != 0 {
			err = fmt.Errorf("%w: the chunk before it is not full", ErrCorrupt)
		}
		if err != nil {
			s.fault(false, key, err)
		}
		chunks++
		lasts = append(lasts, chunk...)
		return true
	})
	if err != nil || !s.Complete("directory", "packed") {
		return err
	}
	i := 0
	first, end = tableBounds(packedKeyspace, table)
	err = s.scan(first, end, 8, func(key, _ []byte) bool {
		if i == len(lasts) || string(key[3:]) != string(binary.BigEndian.AppendUint64(nil, lasts[i])) {
			s.report(Fault{false, "directory", bytes.Clone(key), fmt.Errorf("%w: block %d of table %d is not in the directory", ErrCorrupt, i, table)})
			i = -1
			return false
		}
		i++
		return true
	})
	if err == nil && i >= 0 && i < len(lasts) {
		s.report(Fault{false, "directory", first, fmt.Errorf("%w: it lists %d blocks of table %d, and there are %d", ErrCorrupt, len(lasts), table, i)})
	}
	return err
}

func directoryChunkOf(key, value []byte) ([]uint64, error) {
	if len(key) != chunkKeyLen {
		return nil, fmt.Errorf("%w: key of %d bytes", ErrCorrupt, len(key))
	}
	var b Block
	if err := b.Open(value, nil); err != nil {
		return nil, err
	}
	if err := b.Verify(); err != nil {
		return nil, err
	}
	if b.HasPostings() || b.Len() > directoryChunk {
		return nil, fmt.Errorf("%w: %d blocks, postings %v", ErrCorrupt, b.Len(), b.HasPostings())
	}
	return b.AppendTo(nil), nil
}

// FilterChunks yields the chunks of the saved filter of a table, or of KeyFilterTable.
func (s *Survey) FilterChunks(table int, yield func(chunk []byte) bool) error {
	chunks := uint32(0)
	first, end := tableBounds(filterKeyspace, table)
	return s.scan(first, end, 4, func(key, value []byte) bool {
		if len(key) != chunkKeyLen || binary.BigEndian.Uint32(key[3:]) != chunks {
			s.fault(false, key, fmt.Errorf("%w: it comes as chunk %d", ErrCorrupt, chunks))
			return true
		}
		chunks++
		return yield(value)
	})
}

// Strays reports every entry in a keyspace or a table that an index with so many tables
// does not have; packed says whether it has any that are packed.
func (s *Survey) Strays(tables int, packed bool) error {
	gap := func(first, end []byte) error {
		return s.scan(first, end, 0, func(key, _ []byte) bool {
			s.report(Fault{false, "unknown", bytes.Clone(key), fmt.Errorf("%w: an index with %d tables has no such entry", ErrCorrupt, tables)})
			return true
		})
	}
	_, live := tableBounds(tableKeyspace, tables-1)
	at := func(keyspace byte) []byte {
		if !packed {
			return []byte{keyspace}
		}
		_, end := tableBounds(keyspace, tables-1)
		return end
	}
	keyFilter, afterKeyFilter := tableBounds(filterKeyspace, KeyFilterTable)
	if !packed {
		keyFilter = afterKeyFilter
	}
	for _, g := range [][2][]byte{
		{{}, {clockKeyspace}},
		{{clockKeyspace + 1}, {documentKeyspace}},
		{{documentKeyspace + 1}, {keyKeyspace}},
		{{keyKeyspace + 1}, {metaKeyspace}},
		{{metaKeyspace + 1}, {tableKeyspace}},
		{live, {packedKeyspace}},
		{at(packedKeyspace), {directoryKeyspace}},
		{at(directoryKeyspace), {filterKeyspace}},
		{at(filterKeyspace), keyFilter},
		{{afterTables}, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}},
	} {
		if err := gap(g[0], g[1]); err != nil {
			return err
		}
	}
	return nil
}
