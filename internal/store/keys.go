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

	// These four are neighbours: a Rewrite replaces all of them in one span of keys.
	tableKeyspace     = 't'
	packedKeyspace    = 'u'
	directoryKeyspace = 'v'
	filterKeyspace    = 'w'
	afterTables       = 'x'
)

var keyspaceNames = map[byte]string{
	metaKeyspace: "meta", clockKeyspace: "clock", documentKeyspace: "document", keyKeyspace: "key",
	tableKeyspace: "table", packedKeyspace: "packed", directoryKeyspace: "directory", filterKeyspace: "filter",
}

const (
	uint64KeyLen = 1 + 8
	tableKeyLen  = 1 + 2 + 8 // of the table and packed keyspaces
	chunkKeyLen  = 1 + 2 + 4 // of the directory and filter keyspaces
)

// MaxTables is the number of tables that a key can name, but for the last number.
const MaxTables = 1<<16 - 1

// KeyFilterTable is the table number under which the filter of the keys is saved.
const KeyFilterTable = MaxTables

func metaKey(name string) []byte {
	return append([]byte{metaKeyspace}, name...)
}

// uint64Key returns a key of the clock, document or key keyspace.
func uint64Key(keyspace byte, v uint64) []byte {
	key := make([]byte, uint64KeyLen)
	key[0] = keyspace
	binary.BigEndian.PutUint64(key[1:], v)
	return key
}

// tableKey returns a key of the table or packed keyspace.
func tableKey(keyspace byte, table int, permuted uint64) []byte {
	return putTableKey(make([]byte, tableKeyLen), keyspace, table, permuted)
}

func putTableKey(key []byte, keyspace byte, table int, permuted uint64) []byte {
	key[0] = keyspace
	binary.BigEndian.PutUint16(key[1:], uint16(table))
	binary.BigEndian.PutUint64(key[3:], permuted)
	return key
}

// chunkKey returns a key of the directory or filter keyspace.
func chunkKey(keyspace byte, table, chunk int) []byte {
	key := make([]byte, chunkKeyLen)
	key[0] = keyspace
	binary.BigEndian.PutUint16(key[1:], uint16(table))
	binary.BigEndian.PutUint32(key[3:], uint32(chunk))
	return key
}

// keyspaceEnd is the first key behind a keyspace.
func keyspaceEnd(keyspace byte) []byte { return []byte{keyspace + 1} }

// tableStart is the first key that a table can have in a keyspace, tableEnd the first one behind it.
func tableStart(keyspace byte, table int) []byte {
	return binary.BigEndian.AppendUint16([]byte{keyspace}, uint16(table))
}

func tableEnd(keyspace byte, table int) []byte {
	if table >= MaxTables {
		return keyspaceEnd(keyspace)
	}
	return tableStart(keyspace, table+1)
}

// keyLayout returns how long the keys of a keyspace are, and how many of their last bytes are a number
// that grows from key to key; 0, 0 for those of any length.
func keyLayout(keyspace byte) (length, number int) {
	switch keyspace {
	case clockKeyspace, documentKeyspace, keyKeyspace:
		return uint64KeyLen, 8
	case tableKeyspace, packedKeyspace:
		return tableKeyLen, 8
	case directoryKeyspace, filterKeyspace:
		return chunkKeyLen, 4
	}
	return 0, 0
}

// keyNumber reads the number at the end of a key.
func keyNumber(key []byte) (n uint64, err error) {
	length, width := keyLayout(key[0])
	if len(key) != length {
		return 0, fmt.Errorf("%w: key %x has %d bytes, not %d", ErrCorrupt, key, len(key), length)
	}
	for _, b := range key[length-width:] {
		n = n<<8 | uint64(b)
	}
	return n, nil
}
