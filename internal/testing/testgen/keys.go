package testgen

import (
	"encoding/binary"
	"math/bits"
)

// CollidingKeys returns two different keys with the same xxhash64. Each n has another pair. For the
// 64 bytes of a key, each lane of the hash computes v = rotl(v + word*prime2, 31) * prime1 twice.
// The second word of a lane compensates for the difference in the first.
func CollidingKeys(n uint64) [2]string {
	const prime1, prime2 = 0x9e3779b185ebca87, 0xc2b2ae3d27d4eb4f
	inverse := uint64(prime2) // of prime2, by Newton's iteration
	for range 6 {
		inverse *= 2 - prime2*inverse
	}
	lane := func(word uint64) uint64 {
		start := uint64(prime1)
		start += prime2
		return bits.RotateLeft64(start+word*prime2, 31) * prime1
	}
	var a, b [64]byte
	binary.LittleEndian.PutUint64(a[8:], n)
	binary.LittleEndian.PutUint64(b[8:], n)
	binary.LittleEndian.PutUint64(b[:], 1)
	binary.LittleEndian.PutUint64(b[32:], (lane(0)-lane(1))*inverse)
	return [2]string{string(a[:]), string(b[:])}
}
