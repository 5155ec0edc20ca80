package fingerprint

import (
	"encoding/binary"
	"math/bits"
)

// The primes of xxhash64.
const (
	prime1 = 11400714785074694791
	prime2 = 14029467366897019727
	prime3 = 1609587929392839161
	prime4 = 9650029242287828579
	prime5 = 2870177450012600261

	squared1 = prime1 * prime1 % (1 << 64)
)

// mix is the final mix of xxhash64, a bijection.
func mix(h uint64) uint64 {
	h = (h ^ h>>33) * prime2
	h = (h ^ h>>29) * prime3
	return h ^ h>>32
}

// seedAll turns hashes into those of the seed, by a bijection.
func (o *Options) seedAll(hashes []uint64) {
	if o.Seed == 0 {
		return
	}
	for i, h := range hashes {
		hashes[i] = mix(h + o.Seed*prime1)
	}
}

// Most tokens are short, and their lengths vary, so that a hash that branches on
// the length costs more in mispredictions than in arithmetic. This one has a single
// way for all of up to 16 bytes.

// hash16 hashes up to 16 bytes, the first eight as a and the others as b, both
// little-endian and with zeros after the last. It folds the 128 bits of a product
// into 64 and mixes.
func hash16(a, b uint64, size int) uint64 {
	high, low := bits.Mul64(a^prime1, b^(prime2+uint64(size)))
	h := high ^ low
	h = (h ^ h>>32) * prime3
	return h ^ h>>29
}

// hashPadding is how many bytes must follow a token, whatever they are, for hashToken.
const hashPadding = 16

// hashToken hashes the first size bytes of b: hash16 of the last 1 to 16 of them, where the
// hash of the 16 before changes a.
func hashToken(b []byte, size int) uint64 {
	before, left := uint64(0), size
	for ; left > 16; left -= 16 {
		before = hash16(before^binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:]), size)
		b = b[16:]
	}
	mask := &firstBytes[left]
	return hash16(before^binary.LittleEndian.Uint64(b)&mask[0], binary.LittleEndian.Uint64(b[8:])&mask[1], size)
}

// firstBytes are masks of the first bytes of 16.
var firstBytes = func() (masks [17][2]uint64) {
	for size := range masks {
		masks[size] = [2]uint64{1<<(8*min(size, 8)) - 1, 1<<(8*max(size-8, 0)) - 1}
	}
	return masks
}()

const (
	fnvOffset = 14695981039346656037
	fnvPrime  = 1099511628211
)

// FNV1 is the 64-bit FNV-1 hash (multiply, then xor) over the UTF-16 code units
// of s, each xored whole rather than byte by byte, and a character above U+FFFF
// as its two surrogates. It is the hash of the simhash code for Java that copies
// String.charAt into FNV-1, so it serves to match fingerprints made with it. For
// ASCII it equals the usual FNV-1. A byte that is not valid UTF-8 counts as
// U+FFFD.
func FNV1(s string) uint64 {
	h := uint64(fnvOffset)
	for _, r := range s {
		if r > 0xffff {
			r -= 0x10000
			h = h*fnvPrime ^ uint64(0xd800+r>>10)
			r = 0xdc00 + r&0x3ff
		}
		h = h*fnvPrime ^ uint64(r)
	}
	return h
}
