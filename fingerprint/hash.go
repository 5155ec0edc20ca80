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
)

// mix is the final mix of xxhash64, a bijection.
func mix(h uint64) uint64 {
	h = (h ^ h>>33) * prime2
	h = (h ^ h>>29) * prime3
	return h ^ h>>32
}

// seedAll applies the bijection that the seed selects to each hash.
func (o *Options) seedAll(hashes []uint64) {
	if o.Seed == 0 {
		return
	}
	for i, h := range hashes {
		hashes[i] = mix(h + o.Seed*prime1)
	}
}

// Most tokens are short, and their lengths vary. A hash function that branches on the
// length spends more time on mispredictions than on arithmetic. Therefore hash16 has no
// branches.

// hash16 hashes up to 16 bytes: a has the first eight bytes and b the other bytes, both
// little-endian and padded with zeros. It folds the 128 bits of a product into 64 bits
// and mixes them.
func hash16(a, b uint64, size int) uint64 {
	high, low := bits.Mul64(a^prime1, b^(prime2+uint64(size)))
	h := high ^ low
	h = (h ^ h>>32) * prime3
	return h ^ h>>29
}

// hashPadding is the number of bytes, of any value, that must follow a token for hashToken.
const hashPadding = 16

// hashToken hashes the first size bytes of b, 16 at a time. The hash of 16 bytes changes the first
// argument of the next hash16.
func hashToken(b []byte, size int) uint64 {
	before, left := uint64(0), size
	for ; left > 16; left -= 16 {
		before = hash16(before^binary.LittleEndian.Uint64(b),
			binary.LittleEndian.Uint64(b[8:]), size)
		b = b[16:]
	}
	mask := &firstBytes[left]
	return hash16(before^binary.LittleEndian.Uint64(b)&mask[0],
		binary.LittleEndian.Uint64(b[8:])&mask[1], size)
}

// firstBytes has, for each size, the mask of the first size bytes of 16.
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

// FNV1 returns the 64-bit FNV-1 hash (multiply, then xor) of the UTF-16 code units of s. It xors
// each code unit as a whole, not byte by byte. A character above U+FFFF is two surrogates. Simhash
// code in Java that passes String.charAt to FNV-1 computes this hash, so FNV1 reproduces
// fingerprints of such code. For ASCII, the result equals the usual FNV-1. A byte that is not valid
// UTF-8 is hashed as U+FFFD.
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
