package fingerprint

import (
	"encoding/binary"
	"math/bits"

	"github.com/cespare/xxhash/v2"
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

// of hashes a token or a phrase.
func (h Hash) of(token []byte) uint64 {
	if h == HashFNV1 {
		return fnv1Bytes(token)
	}
	return xxhash.Sum64(token)
}

// Most tokens are short, and their lengths vary, so that a hash that branches on
// the length costs more in mispredictions than in arithmetic. These are
// xxhash64, seed 0, of up to 15 bytes, without such branches.

// hashToken is xxhash64, the short way where that is faster.
func hashToken(b []byte) uint64 {
	if len(b) > 31 {
		return xxhash.Sum64(b)
	}
	h := prime5 + uint64(len(b))
	for ; len(b) >= 8; b = b[8:] {
		h ^= bits.RotateLeft64(binary.LittleEndian.Uint64(b)*prime2, 31) * prime1
		h = bits.RotateLeft64(h, 27)*prime1 + prime4
	}
	return hashRest(h, load(b, 0), len(b))
}

// hashTo7 hashes the n lowest bytes of x, n < 8.
func hashTo7(x uint64, n int) uint64 { return hashRest(prime5+uint64(n), x, n) }

// hashTo15 hashes the 8 bytes of x and the n lowest of y, n < 8.
func hashTo15(x, y uint64, n int) uint64 {
	h := prime5 + uint64(8+n)
	h ^= bits.RotateLeft64(x*prime2, 31) * prime1
	h = bits.RotateLeft64(h, 27)*prime1 + prime4
	return hashRest(h, y, n)
}

// hashRest takes four bytes, then single ones, as n says, and mixes.
func hashRest(h, x uint64, n int) uint64 {
	four := bits.RotateLeft64(h^x&0xffffffff*prime1, 23)*prime2 + prime3
	rest := x >> 32
	if n&4 == 0 {
		four, rest = h, x
	}
	h = four
	one := bits.RotateLeft64(h^rest&0xff*prime5, 11) * prime1
	if n&3 > 0 {
		h = one
	}
	one = bits.RotateLeft64(h^rest>>8&0xff*prime5, 11) * prime1
	if n&3 > 1 {
		h = one
	}
	one = bits.RotateLeft64(h^rest>>16&0xff*prime5, 11) * prime1
	if n&3 > 2 {
		h = one
	}
	return mix(h)
}

// hash3 hashes the 3 lowest bytes of x; the rest of x is ignored.
func hash3(x uint64) uint64 {
	h := bits.RotateLeft64((prime5+3)^x&0xff*prime5, 11) * prime1
	h = bits.RotateLeft64(h^x>>8&0xff*prime5, 11) * prime1
	h = bits.RotateLeft64(h^x>>16&0xff*prime5, 11) * prime1
	return mix(h)
}
