package fingerprint

import "math/bits"

// Accumulator computes a simhash from hashed, weighted features. Each of its 64
// components is the sum, over all features added, of the weight where the hash
// has a 1 in that bit and of minus the weight where it has a 0. The fingerprint
// has a 1 where the component is positive or exactly 0.
//
// The zero value is ready. The order of additions does not matter, and adding a
// feature with weight -w undoes an addition with weight w. Sums are exact while the
// total of |weight| is below 2^64. An Accumulator must not be used by several goroutines
// at once; it may be copied.
type Accumulator struct {
	planes [64]uint64 // bit-sliced: planes[k] holds bit k of 64 counters
	total  uint64     // of |weight|
}

// Add adds a feature, given by its hash. The bits of the hash must be well
// mixed, each as often 0 as 1 and independent of the others. Weight 0 does
// nothing; a negative weight pushes the fingerprint away from the hash.
func (a *Accumulator) Add(hash uint64, weight int) {
	// A counter grows where the hash has a 1, so component = 2*counter - total; a
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

// Fingerprint gives the simhash of what was added so far. More may be added
// afterwards. With nothing added every component is 0, so the fingerprint is
// ffffffffffffffff.
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

// blockSize is how many hashes one carry-save adder tree takes, so that a carry runs far only
// once in 16 additions.
const blockSize = 16

// addAll is Add with weight 1 for each hash, six times as fast.
func (a *Accumulator) addAll(hashes []uint64) {
	a.total += uint64(len(hashes))
	whole := len(hashes) / blockSize * blockSize
	a.addBlocks(hashes[:whole])
	var last [blockSize]uint64 // a hash of zeros raises no counter
	if copy(last[:], hashes[whole:]) > 0 {
		a.addBlocks(last[:])
	}
}

// addBlocks adds the hashes of whole blocks, by the carry-save adder tree of Harley and Seal.
func (a *Accumulator) addBlocks(hashes []uint64) {
	ones, twos, fours, eights := a.planes[0], a.planes[1], a.planes[2], a.planes[3]
	var twosA, twosB, foursA, foursB, eightsA, eightsB, carry uint64
	for ; len(hashes) >= blockSize; hashes = hashes[blockSize:] {
		b := (*[blockSize]uint64)(hashes)
		twosA, ones = carrySave(ones, b[0], b[1])
		twosB, ones = carrySave(ones, b[2], b[3])
		foursA, twos = carrySave(twos, twosA, twosB)
		twosA, ones = carrySave(ones, b[4], b[5])
		twosB, ones = carrySave(ones, b[6], b[7])
		foursB, twos = carrySave(twos, twosA, twosB)
		eightsA, fours = carrySave(fours, foursA, foursB)
		twosA, ones = carrySave(ones, b[8], b[9])
		twosB, ones = carrySave(ones, b[10], b[11])
		foursA, twos = carrySave(twos, twosA, twosB)
		twosA, ones = carrySave(ones, b[12], b[13])
		twosB, ones = carrySave(ones, b[14], b[15])
		foursB, twos = carrySave(twos, twosA, twosB)
		eightsB, fours = carrySave(fours, foursA, foursB)
		carry, eights = carrySave(eights, eightsA, eightsB)
		for k := 4; carry != 0 && k < len(a.planes); k++ {
			a.planes[k], carry = a.planes[k]^carry, a.planes[k]&carry
		}
	}
	a.planes[0], a.planes[1], a.planes[2], a.planes[3] = ones, twos, fours, eights
}

// carrySave adds three bits in each of 64 counters.
func carrySave(a, b, c uint64) (carry, sum uint64) {
	half := a ^ b
	return a&b | half&c, half ^ c
}
