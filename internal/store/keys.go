package store

import (
	"encoding/binary"
	"fmt"
)

// The first byte of a key names its keyspace (docs/format.md).
const (
	metaKeyspace     = 'm'
	clockKeyspace    = 'c'
	documentKeyspace = 'd'
	keyKeyspace      = 'k'

	// These four are next to each other: Replacement puts new contents in the place
	// of all of them at once.
	tableKeyspace     = 't'
	packedKeyspace    = 'u'
	directoryKeyspace = 'v'
	filterKeyspace    = 'w'
	afterTables       = 'x'
)

const (
	uint64KeyLen = 1 + 8
	tableKeyLen  = 1 + 2 + 8 // of the table and packed keyspaces
	chunkKeyLen  = 1 + 2 + 4 // of the directory and filter keyspaces
)

// MaxTables is the number of tables that a key can name, but for the last number.
const MaxTables = 1<<16 - 1

// KeyFilterTable is under what the filter of the keys is saved, beside those of tables.
const KeyFilterTable = MaxTables

func metaKey(name string) []byte {
	return append([]byte{metaKeyspace}, name...)
}

// putUint64Key writes the key of the clock, document or key keyspace.
func putUint64Key(dst []byte, keyspace byte, v uint64) {
	dst[0] = keyspace
	binary.BigEndian.PutUint64(dst[1:], v)
}

// putTableKey writes the key of the table or packed keyspace.
func putTableKey(dst []byte, keyspace byte, table int, permuted uint64) {
	dst[0] = keyspace
	binary.BigEndian.PutUint16(dst[1:], uint16(table))
	binary.BigEndian.PutUint64(dst[3:], permuted)
}

// putChunkKey writes the key of the directory or filter keyspace.
func putChunkKey(dst []byte, keyspace byte, table, chunk int) {
	dst[0] = keyspace
	binary.BigEndian.PutUint16(dst[1:], uint16(table))
	binary.BigEndian.PutUint32(dst[3:], uint32(chunk))
}

// uint64Of reads the number at the end of a key of the given length.
func uint64Of(key []byte, length int) (uint64, error) {
	if len(key) != length {
		return 0, fmt.Errorf("%w: key %x has %d bytes, not %d", ErrCorrupt, key, len(key), length)
	}
	return binary.BigEndian.Uint64(key[length-8:]), nil
}
