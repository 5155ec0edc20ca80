package fingerprint

import "math/bits"

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

// hashToken hashes a token: hash16 of its last 1 to 16 bytes, where the hash of the 16
// bytes before changes a.
func hashToken(b []byte) uint64 {
	size, before := len(b), uint64(0)
	for ; len(b) > 16; b = b[16:] {
		before = hash16(before^load(b, 0), load(b, 8), size)
	}
	return hash16(before^load(b, 0), load(b, 8), size)
}

// firstBytes are masks of the first bytes of 16.
var firstBytes = func() (masks [17][2]uint64) {
	for size := range masks {
		masks[size] = [2]uint64{1<<(8*min(size, 8)) - 1, 1<<(8*max(size-8, 0)) - 1}
	}
	return masks
}()
