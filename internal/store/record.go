package store

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/cespare/xxhash/v2"
)

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
// whose Shingle, Tokens, Scope and Key are all empty has no record.
type Record struct {
	Fingerprint uint64 // as it was given, not XORed with the scope
	Shingle     uint64 // 0: none
	Tokens      uint32 // of the text; 0: not known
	Scope       string
	Key         string
}

// Bare reports whether there is nothing to record but the fingerprint.
func (r Record) Bare() bool { return r.Shingle == 0 && r.Tokens == 0 && r.Scope == "" && r.Key == "" }

const (
	recordHasShingle = 1 << iota
	recordHasScope
	recordHasLength // since format 3
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
	dst = append(dst, flags)
	dst = binary.BigEndian.AppendUint64(dst, r.Fingerprint)
	if r.Shingle != 0 {
		dst = binary.BigEndian.AppendUint64(dst, r.Shingle)
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
	if len(src) < 9 || src[0]&^(recordHasShingle|recordHasScope|recordHasLength) != 0 {
		return Record{}, fmt.Errorf("%w: document record %.32x", ErrCorrupt, src)
	}
	flags := src[0]
	r := Record{Fingerprint: binary.BigEndian.Uint64(src[1:])}
	src = src[9:]
	if flags&recordHasShingle != 0 {
		if len(src) < 8 {
			return Record{}, fmt.Errorf("%w: document record breaks off in its shingle", ErrCorrupt)
		}
		r.Shingle = binary.BigEndian.Uint64(src)
		src = src[8:]
	}
	if flags&recordHasLength != 0 {
		length, n := binary.Uvarint(src)
		if n <= 0 || length == 0 || length > math.MaxUint32 {
			return Record{}, fmt.Errorf("%w: document record breaks off in its length", ErrCorrupt)
		}
		r.Tokens, src = uint32(length), src[n:]
	}
	if flags&recordHasScope != 0 {
		length, n := binary.Uvarint(src)
		if n <= 0 || length > uint64(len(src)-n) {
			return Record{}, fmt.Errorf("%w: document record breaks off in its scope", ErrCorrupt)
		}
		src = src[n:]
		r.Scope, src = string(src[:length]), src[length:]
	}
	r.Key = string(src)
	return r, nil
}
