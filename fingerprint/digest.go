package fingerprint

import (
	"encoding/binary"
	"unsafe"

	"github.com/cespare/xxhash/v2"
)

// Digest identifies a token sequence: two texts have equal Digests if and only if they have the
// same tokens in the same order, except for accidental collisions with probability 2^-64 per
// pair. 0 means that there is no digest. In JSON a Digest is a string of 16 hex digits.
type Digest uint64

// String returns 16 lower-case hex digits, the most significant first.
func (d Digest) String() string { return Fingerprint(d).String() }

// MarshalText returns the bytes of String. The error is always nil.
func (d Digest) MarshalText() ([]byte, error) { return Fingerprint(d).MarshalText() }

// UnmarshalText reads the forms that [Parse] reads.
func (d *Digest) UnmarshalText(text []byte) error { return (*Fingerprint)(d).UnmarshalText(text) }

// digester computes the xxhash64 of the hashes of all tokens, 8 little-endian bytes each. Since all
// tokens have the same number of bytes, their boundaries are part of the digest.
type digester struct {
	xxhash.Digest
	bytes []byte // used only on big-endian machines
}

var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// add adds the hashes of the next tokens.
func (d *digester) add(tokens []uint64) {
	if littleEndian {
		d.Write(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(tokens))), 8*len(tokens)))
		return
	}
	d.bytes = d.bytes[:0]
	for _, h := range tokens {
		d.bytes = binary.LittleEndian.AppendUint64(d.bytes, h)
	}
	d.Write(d.bytes)
}

// sum returns the digest of the tokens that were added since Reset.
func (d *digester) sum() Digest {
	return Digest(max(d.Sum64(), 1)) // 0 means none
}
