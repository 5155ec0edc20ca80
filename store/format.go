package store

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/cespare/xxhash/v2"
	"github.com/neardup/neardup/internal/fault"
)

// The first byte of a key names its keyspace (docs/format.md).
const (
	metaKeyspace     = 'm'
	clockKeyspace    = 'c'
	documentKeyspace = 'd'
	keyKeyspace      = 'k'

	// These five are neighbours: a Rewrite replaces what is packed, and the live entries on the one side of
	// it, in one span of keys, while what is written goes to the other side.
	evenKeyspace      = 't' // live entries of even epochs
	packedKeyspace    = 'u'
	directoryKeyspace = 'v'
	filterKeyspace    = 'w'
	oddKeyspace       = 'x' // live entries of odd epochs
	afterTables       = 'y'
)

var keyspaceNames = map[byte]string{
	metaKeyspace: "meta", clockKeyspace: "clock", documentKeyspace: "document", keyKeyspace: "key",
	evenKeyspace: "table", packedKeyspace: "packed", directoryKeyspace: "directory", filterKeyspace: "filter", oddKeyspace: "table",
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

// isLivePosting reports whether a key is that of a live posting. Each of its values adds and removes IDs.
func isLivePosting(key []byte) bool {
	return len(key) == tableKeyLen && (key[0] == evenKeyspace || key[0] == oddKeyspace) && key[1] == 0 && key[2] == 0
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
	case evenKeyspace, oddKeyspace, packedKeyspace:
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
		return 0, fmt.Errorf("%w: key %x has %d bytes, not %d", fault.ErrCorrupt, key, len(key), length)
	}
	for _, b := range key[length-width:] {
		n = n<<8 | uint64(b)
	}
	return n, nil
}

// Stored returns a fingerprint as the tables hold it. XOR with a hash of the scope
// keeps distances within a scope and makes those across scopes random.
func Stored(fingerprint uint64, scope string) uint64 {
	if scope == "" {
		return fingerprint
	}
	return fingerprint ^ xxhash.Sum64String(scope)
}

// KeyHash is what the key keyspace finds a key by.
func KeyHash(key string) uint64 { return xxhash.Sum64String(key) }

// Record is what the index keeps of one document beside its posting. A document
// whose Shingle, Digest, Tokens, Scope and Key are all empty has no record.
type Record struct {
	Fingerprint uint64 // as it was given, not XORed with the scope
	Shingle     uint64 // 0: none
	Digest      uint64 // of the token sequence; 0: none
	Tokens      uint32 // of the text; 0: not known
	Scope       string
	Key         string
}

// Bare reports whether there is nothing to record but the fingerprint.
func (r Record) Bare() bool {
	return r.Shingle == 0 && r.Digest == 0 && r.Tokens == 0 && r.Scope == "" && r.Key == ""
}

const (
	recordHasShingle = 1 << iota
	recordHasScope
	recordHasLength
	recordHasDigest
)

// Append appends the record as docs/format.md has it; DecodeRecord reads it.
func (r Record) Append(dst []byte) []byte {
	flags := byte(0)
	if r.Shingle != 0 {
		flags |= recordHasShingle
	}
	if r.Scope != "" {
		flags |= recordHasScope
	}
	if r.Tokens != 0 {
		flags |= recordHasLength
	}
	if r.Digest != 0 {
		flags |= recordHasDigest
	}
	dst = append(dst, flags)
	dst = binary.BigEndian.AppendUint64(dst, r.Fingerprint)
	if r.Shingle != 0 {
		dst = binary.BigEndian.AppendUint64(dst, r.Shingle)
	}
	if r.Digest != 0 {
		dst = binary.BigEndian.AppendUint64(dst, r.Digest)
	}
	if r.Tokens != 0 {
		dst = binary.AppendUvarint(dst, uint64(r.Tokens))
	}
	if r.Scope != "" {
		dst = binary.AppendUvarint(dst, uint64(len(r.Scope)))
		dst = append(dst, r.Scope...)
	}
	return append(dst, r.Key...)
}

// DecodeRecord reads what Append wrote. Error: ErrCorrupt.
func DecodeRecord(src []byte) (Record, error) {
	if len(src) < 9 || src[0]&^(recordHasShingle|recordHasScope|recordHasLength|recordHasDigest) != 0 {
		return Record{}, fmt.Errorf("%w: document record %.32x", fault.ErrCorrupt, src)
	}
	flags := src[0]
	r := Record{Fingerprint: binary.BigEndian.Uint64(src[1:])}
	src = src[9:]
	if flags&recordHasShingle != 0 {
		if len(src) < 8 {
			return Record{}, fmt.Errorf("%w: document record breaks off in its shingle", fault.ErrCorrupt)
		}
		r.Shingle = binary.BigEndian.Uint64(src)
		src = src[8:]
	}
	if flags&recordHasDigest != 0 {
		if len(src) < 8 || binary.BigEndian.Uint64(src) == 0 {
			return Record{}, fmt.Errorf("%w: document record has no digest of 8 bytes", fault.ErrCorrupt)
		}
		r.Digest = binary.BigEndian.Uint64(src)
		src = src[8:]
	}
	if flags&recordHasLength != 0 {
		length, n := binary.Uvarint(src)
		if n <= 0 || length == 0 || length > math.MaxUint32 {
			return Record{}, fmt.Errorf("%w: document record breaks off in its length", fault.ErrCorrupt)
		}
		r.Tokens, src = uint32(length), src[n:]
	}
	if flags&recordHasScope != 0 {
		length, n := binary.Uvarint(src)
		if n <= 0 || length > uint64(len(src)-n) {
			return Record{}, fmt.Errorf("%w: document record breaks off in its scope", fault.ErrCorrupt)
		}
		src = src[n:]
		r.Scope, src = string(src[:length]), src[length:]
	}
	r.Key = string(src)
	return r, nil
}
