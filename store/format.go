package store

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"

	"github.com/cespare/xxhash/v2"
	"github.com/cockroachdb/pebble/v2"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/internal/duplicates"
	"github.com/neardup/neardup/internal/fault"
)

// The first byte of a key names its keyspace (docs/format.md).
const (
	metaKeyspace     = 'm'
	documentKeyspace = 'd'
	keyKeyspace      = 'k'
	countKeyspace    = 'n'

	// These five are adjacent. A compaction replaces the packed tables, and the live entries on one
	// side of them, as one span of keys, while commits write to the other side.
	evenKeyspace      = 't' // live entries and removed IDs of even epochs
	packedKeyspace    = 'u'
	directoryKeyspace = 'v'
	filterKeyspace    = 'w'
	oddKeyspace       = 'x' // live entries and removed IDs of odd epochs
	afterTables       = 'y'
)

var keyspaceNames = map[byte]string{
	metaKeyspace: "meta", documentKeyspace: "document", keyKeyspace: "key",
	countKeyspace: "duplicates", evenKeyspace: "live",
	packedKeyspace: "packed", directoryKeyspace: "directory", filterKeyspace: "filter",
	oddKeyspace: "live",
}

const (
	documentKeyLen = 1 + 8
	keyKeyLen      = 1 + 8 + 8 // hash and ID
	tableKeyLen    = 1 + 2 + 8 // of tables from 1 on, removed IDs, and packed blocks
	liveKeyLen     = tableKeyLen + 8
	chunkKeyLen    = 1 + 2 + 4 // of the directory and filter keyspaces
)

const (
	// MaxTables is the largest number of tables. The last table number is reserved.
	MaxTables = 1<<16 - 1

	// removedTable is the table number of removed IDs among the live entries.
	removedTable = MaxTables

	// KeyFilterTable is the table number of the filter of the keys among the filters.
	KeyFilterTable = MaxTables
)

func metaKey(name string) []byte {
	return append([]byte{metaKeyspace}, name...)
}

func documentKey(id uint64) []byte { return appendDocumentKey(nil, id) }

func appendDocumentKey(dst []byte, id uint64) []byte {
	return binary.BigEndian.AppendUint64(append(dst, documentKeyspace), id)
}

// countKey returns the key of the count of the duplicates of a document.
func countKey(id uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{countKeyspace}, id)
}

// keyKey returns the key of an entry in the key keyspace. If the keys of documents have the same
// hash, their entries differ only in the ID at the end.
func keyKey(hash, id uint64) []byte { return appendKeyKey(nil, hash, id) }

func appendKeyKey(dst []byte, hash, id uint64) []byte {
	dst = binary.BigEndian.AppendUint64(append(dst, keyKeyspace), hash)
	return binary.BigEndian.AppendUint64(dst, id)
}

// tableKey returns the key of a live entry of a table except table 0, of a removed ID, or of a
// packed block.
func tableKey(keyspace byte, table int, permuted uint64) []byte {
	return putTableKey(make([]byte, tableKeyLen), keyspace, table, permuted)
}

func putTableKey(key []byte, keyspace byte, table int, permuted uint64) []byte {
	key[0] = keyspace
	binary.BigEndian.PutUint16(key[1:], uint16(table))
	binary.BigEndian.PutUint64(key[3:], permuted)
	return key
}

// liveKey returns the key of a live entry of table 0.
func liveKey(keyspace byte, stored, id uint64) []byte {
	return binary.BigEndian.AppendUint64(tableKey(keyspace, 0, stored), id)
}

// chunkKey returns a key of the directory or filter keyspace.
func chunkKey(keyspace byte, table, chunk int) []byte {
	key := make([]byte, chunkKeyLen)
	key[0] = keyspace
	binary.BigEndian.PutUint16(key[1:], uint16(table))
	binary.BigEndian.PutUint32(key[3:], uint32(chunk))
	return key
}

// keyspaceEnd returns the first key after a keyspace.
func keyspaceEnd(keyspace byte) []byte { return []byte{keyspace + 1} }

// tableStart returns the first possible key of a table in a keyspace, and tableEnd the first key
// after the table.
func tableStart(keyspace byte, table int) []byte {
	return binary.BigEndian.AppendUint16([]byte{keyspace}, uint16(table))
}

func tableEnd(keyspace byte, table int) []byte {
	if table >= MaxTables {
		return keyspaceEnd(keyspace)
	}
	return tableStart(keyspace, table+1)
}

// keyNumber returns the number at the end of a key, which must have the given length. The number of
// a chunk has 4 bytes, every other number 8.
func keyNumber(key []byte, length int) (n uint64, err error) {
	if len(key) != length {
		return 0, fmt.Errorf("%w: key %x has %d bytes, not %d", fault.ErrCorrupt, key,
			len(key), length)
	}
	width := 8
	if length == chunkKeyLen {
		width = 4
	}
	for _, b := range key[length-width:] {
		n = n<<8 | uint64(b)
	}
	return n, nil
}

// Stored returns the stored fingerprint: the XOR of a fingerprint and a hash of the scope. The XOR
// does not change distances within a scope. It makes distances between different scopes random.
func Stored(fingerprint uint64, scope string) uint64 {
	if scope == "" {
		return fingerprint
	}
	return fingerprint ^ xxhash.Sum64String(scope)
}

// KeyHash returns the hash of a key in the key keyspace.
func KeyHash(key string) uint64 { return xxhash.Sum64String(key) }

// Record has the fields of a document, without its entries in the tables.
type Record struct {
	ID          uint64                       // in the key of the record, not in its value
	Fingerprint uint64                       // as given, without the scope
	Time        uint64                       // Unix seconds at which the document was last stored
	Shingles    fingerprint.ShingleSignature // zero: none
	Digest      uint64                       // of the token sequence; 0: none
	Tokens      uint32                       // of the text; 0: not known
	Scope       string
	Key         string
}

// Bare reports whether a record has only an ID, a fingerprint and a time. A bulk load stores such a
// document without a record.
func (r *Record) Bare() bool {
	return r.Shingles.IsZero() && r.Digest == 0 && r.Tokens == 0 && r.Scope == "" && r.Key == ""
}

const (
	recordHasShingles = 1 << iota
	recordHasDigest
	recordHasTokens
	recordHasScope
	recordFlags = 1<<iota - 1
)

// appendTo appends the record as docs/format.md describes it; decodeRecord reads it.
func (r *Record) appendTo(dst []byte) []byte {
	at := len(dst)
	dst = append(dst, 0)
	dst = binary.BigEndian.AppendUint64(dst, r.Fingerprint)
	dst = binary.AppendUvarint(dst, r.Time)
	flags := byte(0)
	if !r.Shingles.IsZero() {
		flags |= recordHasShingles
		for _, word := range r.Shingles {
			dst = binary.BigEndian.AppendUint64(dst, word)
		}
	}
	if r.Digest != 0 {
		flags |= recordHasDigest
		dst = binary.BigEndian.AppendUint64(dst, r.Digest)
	}
	if r.Tokens != 0 {
		flags |= recordHasTokens
		dst = binary.AppendUvarint(dst, uint64(r.Tokens))
	}
	if r.Scope != "" {
		flags |= recordHasScope
		dst = binary.AppendUvarint(dst, uint64(len(r.Scope)))
		dst = append(dst, r.Scope...)
	}
	dst[at] = flags
	return append(dst, r.Key...)
}

// decodeRecord decodes a value that appendTo has written. It returns ErrCorrupt for other values.
func decodeRecord(src []byte) (Record, error) {
	if len(src) == 0 || src[0]&^recordFlags != 0 {
		return Record{}, fmt.Errorf("%w: document record %.32x", fault.ErrCorrupt, src)
	}
	d := recordDecoder{rest: src[1:]}
	r := Record{Fingerprint: d.uint64("fingerprint"), Time: d.uvarint("time", math.MaxInt64)}
	if src[0]&recordHasShingles != 0 {
		for i := range r.Shingles {
			r.Shingles[i] = d.uint64("shingles")
		}
		if r.Shingles.IsZero() {
			d.fail("shingles")
		}
	}
	if src[0]&recordHasDigest != 0 {
		r.Digest = d.nonzero("digest", d.uint64("digest"))
	}
	if src[0]&recordHasTokens != 0 {
		r.Tokens = uint32(d.nonzero("tokens", d.uvarint("tokens", math.MaxUint32)))
	}
	if src[0]&recordHasScope != 0 {
		length := d.nonzero("scope", d.uvarint("scope", uint64(len(d.rest))))
		r.Scope = string(d.bytes("scope", length))
	}
	if d.err != nil {
		return Record{}, d.err
	}
	r.Key = string(d.rest)
	return r, nil
}

// recordDecoder reads fields from the beginning of rest, and keeps the first error.
type recordDecoder struct {
	rest []byte
	err  error
}

func (d *recordDecoder) fail(field string) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: document record: invalid %s", fault.ErrCorrupt, field)
	}
	d.rest = nil
}

func (d *recordDecoder) bytes(field string, n uint64) []byte {
	if n > uint64(len(d.rest)) {
		d.fail(field)
		return nil
	}
	b := d.rest[:n]
	d.rest = d.rest[n:]
	return b
}

func (d *recordDecoder) uint64(field string) uint64 {
	if b := d.bytes(field, 8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

func (d *recordDecoder) uvarint(field string, most uint64) uint64 {
	v, n := binary.Uvarint(d.rest)
	if n <= 0 || v > most {
		d.fail(field)
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

func (d *recordDecoder) nonzero(field string, v uint64) uint64 {
	if v == 0 {
		d.fail(field)
	}
	return v
}

// appendCount appends a count of duplicates as docs/format.md describes it; decodeCount reads it.
func appendCount(dst []byte, c duplicates.Count) []byte {
	dst = binary.AppendUvarint(dst, c.Checks)
	if c.Texts != 0 {
		dst = binary.BigEndian.AppendUint64(dst, uint64(c.Texts))
	}
	return dst
}

func decodeCount(src []byte) (c duplicates.Count, err error) {
	checks, n := binary.Uvarint(src)
	rest := src[max(n, 0):]
	if len(rest) == 8 {
		c.Texts = duplicates.Texts(binary.BigEndian.Uint64(rest))
	}
	if n <= 0 || checks == 0 || len(rest) != 0 && c.Texts == 0 {
		return duplicates.Count{}, fmt.Errorf("%w: count of duplicates %.32x",
			fault.ErrCorrupt, src)
	}
	c.Checks = checks
	return c, nil
}

// merger adds the counts that are written for one document. Its name is part of the storage format.
var merger = &pebble.Merger{
	Name: "neardup.duplicates",
	Merge: func(_, value []byte) (pebble.ValueMerger, error) {
		c, err := decodeCount(value)
		return &sum{c}, err
	},
}

// sum is a pebble.ValueMerger.
type sum struct{ duplicates.Count }

func (s *sum) MergeNewer(value []byte) error {
	c, err := decodeCount(value)
	s.Count = s.Add(c)
	return err
}

func (s *sum) MergeOlder(value []byte) error { return s.MergeNewer(value) }

func (s *sum) Finish(bool) ([]byte, io.Closer, error) { return appendCount(nil, s.Count), nil, nil }

// comparer orders keys by their bytes. Its name is part of the storage format.
//
// Entries of the key keyspace, and live entries of table 0, end in a document ID. Split removes the
// ID, so that the Bloom filter of a file contains key hashes and stored fingerprints.
var comparer = func() *pebble.Comparer {
	c := *pebble.DefaultComparer
	c.Name = "neardup.1"
	c.Split = splitKey
	c.ComparePointSuffixes = bytes.Compare
	c.CompareRangeSuffixes = bytes.Compare
	c.ImmediateSuccessor = appendSuccessor
	return c.EnsureDefaults()
}()

// splitKey returns the length of a key without the ID at its end.
func splitKey(key []byte) int {
	if n := prefixLen(key); n > 0 {
		return min(n, len(key))
	}
	return len(key)
}

// prefixLen returns the length of the prefix of keys that end in an ID. It returns 0 for other
// keys.
func prefixLen(key []byte) int {
	switch {
	case len(key) == 0:
		return 0
	case key[0] == keyKeyspace:
		return keyKeyLen - 8
	case (key[0] == evenKeyspace || key[0] == oddKeyspace) && len(key) >= 3 &&
		key[1] == 0 && key[2] == 0:
		return tableKeyLen
	}
	return 0
}

// appendSuccessor appends the smallest prefix that is greater than a given prefix.
func appendSuccessor(dst, prefix []byte) []byte {
	if n := prefixLen(prefix); n == 0 || len(prefix) < n {
		return append(append(dst, prefix...), 0)
	}
	// All keys that begin with a whole prefix have that prefix. The next key does not begin with
	// it. A whole prefix begins with the name of a keyspace, so not all of its bytes are 0xff.
	last := len(prefix) - 1
	for prefix[last] == 0xff {
		last--
	}
	dst = append(dst, prefix[:last+1]...)
	dst[len(dst)-1]++
	return dst
}
