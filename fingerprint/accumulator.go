package fingerprint

import "math/bits"

// blockSize is how many hashes one carry-save adder tree takes, so that a carry runs far only
// once in 16 additions.
const blockSize = 16

// Accumulator computes a simhash from hashed, weighted features. Each of its 64
// components is the sum, over all features added, of the weight where the hash
// has a 1 in that bit and of minus the weight where it has a 0. The fingerprint
// has a 1 where the component is positive or exactly 0.
//
// The zero value is ready. The order of additions does not matter, and adding a
// feature with weight -w undoes an addition with weight w. Sums are exact: the
// smallest total of |weight| that could overflow is 2^128, which takes more than
// 2^64 additions. An Accumulator must not be used by several goroutines at once;
// it may be copied.
//
// The counters are bit-sliced: planes[k] holds bit k of all 64. Additions of
// weight 1 wait in a block that a carry-save adder tree (Harley and Seal) adds
// at once.
type Accumulator struct {
	planes  [128]uint64
	block   [blockSize]uint64
	pending uint   // features in block
	lo, hi  uint64 // sum of |weight| in planes
}

// Add adds a feature, given by its hash. The bits of the hash must be well
// mixed, each as often 0 as 1 and independent of the others. Weight 0 does
// nothing; a negative weight pushes the fingerprint away from the hash.
func (a *Accumulator) Add(hash uint64, weight int) {
	a.block[a.pending] = hash
	if weight != 1 || a.pending == blockSize-1 {
		a.settle(weight)
	} else {
		a.pending++
	}
}

// settle is separate from Add, so that Add can be inlined.
func (a *Accumulator) settle(weight int) {
	if weight == 1 {
		a.addBlocks(a.block[:])
		a.pending = 0
		return
	}
	a.addWeighted(a.block[a.pending], weight)
}

// addAll adds features of weight 1. What does not fill a block goes to the one
// that waits.
func (a *Accumulator) addAll(hashes []uint64) {
	whole := len(hashes) / blockSize * blockSize
	a.addBlocks(hashes[:whole])
	rest := hashes[whole:]
	n := copy(a.block[a.pending:], rest)
	if a.pending += uint(n); a.pending == blockSize {
		a.addBlocks(a.block[:])
		a.pending = uint(copy(a.block[:], rest[n:]))
	}
}

// carrySave adds three bits in each of 64 counters.
func carrySave(a, b, c uint64) (carry, sum uint64) {
	half := a ^ b
	return a&b | half&c, half ^ c
}

// addBlocks adds the hashes of whole blocks.
func (a *Accumulator) addBlocks(hashes []uint64) {
	a.addTotal(uint64(len(hashes)))
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

// addTotal adds to the sum of |weight|.
func (a *Accumulator) addTotal(weight uint64) {
	var carry uint64
	a.lo, carry = bits.Add64(a.lo, weight, 0)
	a.hi += carry
}

// A counter grows where the hash has a 1, so component = 2*counter - total; a
// negative weight is its absolute value with the inverted hash.
func (a *Accumulator) addWeighted(hash uint64, weight int) {
	w := uint64(weight)
	if weight < 0 {
		w, hash = -w, ^hash
	}
	a.addTotal(w)
	carry, k := uint64(0), bits.TrailingZeros64(w)
	for w >>= k; w|carry != 0 && k < len(a.planes); k++ {
		plane, x := a.planes[k], hash&-(w&1)
		half := plane ^ x
		a.planes[k] = half ^ carry
		carry = plane&x | half&carry
		w >>= 1
	}
}

// Fingerprint gives the simhash of what was added so far. It does not change
// the sums; more may be added afterwards. With nothing added every
// component is 0, so the fingerprint is ffffffffffffffff.
func (a *Accumulator) Fingerprint() Fingerprint {
	a.gather()
	return a.atLeastHalf()
}

// gather moves the features of the block to the planes.
func (a *Accumulator) gather() {
	if a.pending == 0 {
		return
	}
	clear(a.block[a.pending:]) // a hash of zeros raises no counter
	a.addBlocks(a.block[:])
	var borrow uint64
	a.lo, borrow = bits.Sub64(a.lo, uint64(blockSize-a.pending), 0)
	a.hi -= borrow
	a.pending = 0
}

// atLeastHalf compares the 64 counters with half of the total, rounded up, from
// the highest plane down.
func (a *Accumulator) atLeastHalf() Fingerprint {
	odd := a.lo & 1
	lo, carry := bits.Add64(a.lo>>1|a.hi<<63, odd, 0)
	hi := a.hi>>1 + carry

	width := bits.Len64(lo)
	if hi != 0 {
		width = 64 + bits.Len64(hi)
	}
	above, equal := uint64(0), ^uint64(0)
	for k := min(width, len(a.planes)-1); k >= 0; k-- { // a counter has at most one bit more than half of the total
		word := lo
		if k >= 64 {
			word = hi
		}
		half := -(word >> (k & 63) & 1)
		above |= equal & a.planes[k] &^ half
		equal &^= a.planes[k] ^ half
	}
	return Fingerprint(above | equal)
}

// Reset makes the Accumulator empty again.
func (a *Accumulator) Reset() { *a = Accumulator{} }
