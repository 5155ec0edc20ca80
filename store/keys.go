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
	tableKeyspace    = 't'
)

const (
	uint64KeyLen = 1 + 8
	tableKeyLen  = 1 + 2 + 8
)

// MaxTables is the number of tables that a key can name.
const MaxTables = 1 << 16

func metaKey(name string) []byte {
	return append([]byte{metaKeyspace}, name...)
}

// putUint64Key writes the key of the clock, document or key keyspace.
func putUint64Key(dst []byte, keyspace byte, v uint64) {
	dst[0] = keyspace
	binary.BigEndian.PutUint64(dst[1:], v)
}

func putTableKey(dst []byte, table int, permuted uint64) {
	dst[0] = tableKeyspace
	binary.BigEndian.PutUint16(dst[1:], uint16(table))
	binary.BigEndian.PutUint64(dst[3:], permuted)
}

// uint64Of reads the number at the end of a key of the given length.
func uint64Of(key []byte, length int) (uint64, error) {
	if len(key) != length {
		return 0, fmt.Errorf("%w: key %x has %d bytes, not %d", ErrCorrupt, key, len(key), length)
	}
	return binary.BigEndian.Uint64(key[length-8:]), nil
}
