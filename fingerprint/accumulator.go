package fingerprint

import "math/bits"

// blockSize is what one fold takes: 64 hashes, so that a carry runs far only
// once in 64 additions.
const blockSize = 64

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
// weight 1 wait in a block that a carry-save adder tree (Harley and Seal)
// folds into the planes at once.
type Accumulator struct {
	planes  [128]uint64
	block   [blockSize]uint64
	pending uint   // features in block
	top     int    // planes[top:] are zero
	lo, hi  uint64 // sum of |weight|, without the pending ones
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

// settle is apart, and takes no hash, so that Add is small enough to be inlined.
func (a *Accumulator) settle(weight int) {
	if weight == 1 {
		a.fold(&a.block)
		a.pending = 0
		return
	}
	a.addWeighted(a.block[a.pending], weight)
}

// addAll adds features of weight 1, the same as Add one by one.
func (a *Accumulator) addAll(hashes []uint64) {
	for len(hashes) > 0 {
		if a.pending == 0 && len(hashes) >= blockSize {
			a.fold((*[blockSize]uint64)(hashes))
			hashes = hashes[blockSize:]
			continue
		}
		n := copy(a.block[a.pending:], hashes)
		hashes = hashes[n:]
		if a.pending += uint(n); a.pending == blockSize {
			a.fold(&a.block)
			a.pending = 0
		}
	}
}

// A counter grows where the hash has a 1, so component = 2*counter - total; a
// negative weight is its absolute value with the inverted hash.
func (a *Accumulator) addWeighted(hash uint64, weight int) {
	w := uint64(weight)
	if weight < 0 {
		w, hash = -w, ^hash
	}
	var carry uint64
	a.lo, carry = bits.Add64(a.lo, w, 0)
	a.hi += carry

	k := bits.TrailingZeros64(w)
	for carry, w = 0, w>>k; w|carry != 0 && k < len(a.planes); k++ {
		plane, x := a.planes[k], hash&-(w&1)
		half := plane ^ x
		a.planes[k] = half ^ carry
		carry = plane&x | half&carry
		w >>= 1
	}
	a.top = max(a.top, k)
}

// carrySave adds three bits in each of 64 lanes.
func carrySave(a, b, c uint64) (carry, sum uint64) {
	half := a ^ b
	return a&b | half&c, half ^ c
}

// fold adds the hashes of a block to the counters.
func (a *Accumulator) fold(block *[blockSize]uint64) {
	var sixteens [blockSize / 16]uint64
	for i := range sixteens {
		sixteens[i] = a.fold16((*[16]uint64)(block[16*i:]))
	}
	var thirtytwosA, thirtytwosB, carry uint64
	thirtytwosA, a.planes[4] = carrySave(a.planes[4], sixteens[0], sixteens[1])
	thirtytwosB, a.planes[4] = carrySave(a.planes[4], sixteens[2], sixteens[3])
	carry, a.planes[5] = carrySave(a.planes[5], thirtytwosA, thirtytwosB)
	k := 6
	for ; carry != 0 && k < len(a.planes); k++ {
		plane := a.planes[k]
		a.planes[k] = plane ^ carry
		carry &= plane
	}
	a.top = max(a.top, k)
	a.lo, carry = bits.Add64(a.lo, blockSize, 0)
	a.hi += carry
}

// fold16 adds 16 hashes to the lowest four planes and gives the carry, of weight 16.
func (a *Accumulator) fold16(b *[16]uint64) (carry uint64) {
	ones, twos, fours, eights := a.planes[0], a.planes[1], a.planes[2], a.planes[3]
	var twosA, twosB, foursA, foursB, eightsA, eightsB uint64

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

	a.planes[0], a.planes[1], a.planes[2], a.planes[3] = ones, twos, fours, eights
	return carry
}

// Fingerprint gives the simhash of what was added so far. It does not change
// the Accumulator; more may be added afterwards. With nothing added every
// component is 0, so the fingerprint is ffffffffffffffff.
func (a *Accumulator) Fingerprint() Fingerprint {
	b := *a
	if n := b.pending; n > 0 {
		clear(b.block[n:]) // a hash of zeros raises no counter
		b.fold(&b.block)
		var borrow uint64
		b.lo, borrow = bits.Sub64(b.lo, uint64(blockSize-n), 0)
		b.hi -= borrow
	}
	return b.atLeastHalf()
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
	for k := max(a.top, width) - 1; k >= 0; k-- {
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
