package fingerprint

import (
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

// hash hashes a token or a phrase as the options say.
func (o *Options) hash(token []byte) uint64 { return o.seeded(o.Hash.of(token)) }

// seeded is a bijection for every seed, and the identity for 0.
func (o *Options) seeded(h uint64) uint64 {
	if o.Seed == 0 {
		return h
	}
	return mix(h + o.Seed*prime1)
}

func (o *Options) seedAll(hashes []uint64) {
	if o.Seed == 0 {
		return
	}
	for i, h := range hashes {
		hashes[i] = o.seeded(h)
	}
}

// Most tokens are short, and their lengths vary, so that a hash that branches on
// the length costs more in mispredictions than in arithmetic. What follows is
// xxhash64, seed 0, of up to 31 bytes, with hardly any such branch.

// hashToken is xxhash64, the short way where that is faster. It may read, and
// ignore, up to 7 bytes between len(b) and cap(b).
func hashToken(b []byte) uint64 {
	n := len(b)
	if n > 31 {
		return xxhash.Sum64(b)
	}
	b = b[:cap(b)]
	h, i := prime5+uint64(n), 0
	for ; n >= 8; n -= 8 {
		h = takeEight(h, load(b, i))
		i += 8
	}
	return hashRest(h, load(b, i), n)
}

// hashRest takes the n lowest bytes of x, n < 8, and mixes.
func hashRest(h, x uint64, n int) uint64 {
	four, last := takeFour(h, x), x>>32
	if n&4 == 0 {
		four, last = h, x
	}
	one := takeOne(four, last)
	two := takeOne(one, last>>8)
	three := takeOne(two, last>>16)
	h = four
	if n&3 > 0 {
		h = one
	}
	if n&3 > 1 {
		h = two
	}
	if n&3 > 2 {
		h = three
	}
	return mix(h)
}

func takeEight(h, x uint64) uint64 {
	h ^= bits.RotateLeft64(x*prime2, 31) * prime1
	return bits.RotateLeft64(h, 27)*prime1 + prime4
}

func takeFour(h, x uint64) uint64 {
	return bits.RotateLeft64(h^x&0xffffffff*prime1, 23)*prime2 + prime3
}

func takeOne(h, x uint64) uint64 {
	return bits.RotateLeft64(h^x&0xff*prime5, 11) * prime1
}

// hash3 hashes the 3 lowest bytes of x; the rest of x is ignored.
func hash3(x uint64) uint64 {
	return mix(takeOne(takeOne(takeOne(prime5+3, x), x>>8), x>>16))
}
