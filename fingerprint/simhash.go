package fingerprint

import "math/bits"

// Accumulator computes a simhash of hashed, weighted features. Each of its 64 components is a sum
// over all features: the weight if the hash has a 1 in that bit, and minus the weight if it has a
// 0. A bit of the fingerprint is 1 if its component is positive or 0.
//
// The zero value is ready to use. The order of additions does not matter, and adding a feature with
// weight -w undoes an addition with weight w. Sums are exact while the total of |weight| is below
// 2^64. An Accumulator may be copied. It is not safe for concurrent use.
type Accumulator struct {
	planes [64]uint64 // bit-sliced: planes[k] holds bit k of 64 counters
	total  uint64     // of |weight|
}

// Add adds a feature by its hash. The bits of the hash must be well mixed: each is as often 0 as 1,
// independent of the others. Weight 0 does nothing. A negative weight moves the fingerprint away
// from the hash.
func (a *Accumulator) Add(hash uint64, weight int) {
	// A counter grows if the hash has a 1, so component = 2*counter - total. A
	// negative weight is its absolute value with the inverted hash.
	w := uint64(weight)
	if weight < 0 {
		w, hash = -w, ^hash
	}
	a.total += w
	carry := uint64(0)
	for k := bits.TrailingZeros64(w); k < len(a.planes) && (w>>k|carry) != 0; k++ {
		plane, x := a.planes[k], hash&-(w>>k&1)
		carry, a.planes[k] = carrySave(plane, x, carry)
	}
}

// Fingerprint returns the simhash of the features that were added so far. If there are none, every
// component is 0, so the fingerprint is ffffffffffffffff.
func (a *Accumulator) Fingerprint() Fingerprint {
	// All counters are compared with half of the total, rounded up, from the highest bit down.
	half := a.total - a.total/2
	above, equal := uint64(0), ^uint64(0)
	for k := bits.Len64(a.total) - 1; k >= 0; k-- {
		bit := -(half >> k & 1)
		above |= equal & a.planes[k] &^ bit
		equal &^= a.planes[k] ^ bit
	}
	return Fingerprint(above | equal)
}

// carrySave adds three bits in each of 64 counters.
func carrySave(a, b, c uint64) (carry, sum uint64) {
	half := a ^ b
	return a&b | half&c, half ^ c
}
