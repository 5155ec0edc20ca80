package fingerprint

import "math/bits"

// lanes are planes of four times 64 counters: lane i counts every fourth hash. A
// plane fits a 256-bit register, and all fit the registers of AVX2 at once.
type lanes [10][4]uint64

// maxInLanes is how many hashes of whole blocks the lanes can count.
const maxInLanes = (1<<len(lanes{}) - 1) / (blockSize / 4) * blockSize

// carrySave adds three bits in each of 64 counters.
func carrySave(a, b, c uint64) (carry, sum uint64) {
	half := a ^ b
	return a&b | half&c, half ^ c
}

// halfAdd adds two bits in each of 64 counters.
func halfAdd(a, b uint64) (carry, sum uint64) { return a & b, a ^ b }

// addPortable counts the hashes of whole blocks, with the same lanes as the assembly.
func (l *lanes) addPortable(hashes []uint64) {
	for ; len(hashes) >= blockSize; hashes = hashes[blockSize:] {
		block := (*[blockSize]uint64)(hashes)
		c0, c1, c2, c3 := l.add16(block, 0), l.add16(block, 1), l.add16(block, 2), l.add16(block, 3)
		for k := 4; k < len(l); k++ {
			plane := &l[k]
			c0, plane[0] = halfAdd(plane[0], c0)
			c1, plane[1] = halfAdd(plane[1], c1)
			c2, plane[2] = halfAdd(plane[2], c2)
			c3, plane[3] = halfAdd(plane[3], c3)
		}
	}
}

// add16 adds the 16 hashes of one lane to its lowest four planes and gives the
// carry, of weight 16.
func (l *lanes) add16(block *[blockSize]uint64, lane int) (carry uint64) {
	b := (*[blockSize - 3]uint64)(block[lane:])
	ones, twos, fours, eights := l[0][lane], l[1][lane], l[2][lane], l[3][lane]
	var twosA, twosB, foursA, foursB, eightsA, eightsB uint64

	twosA, ones = carrySave(ones, b[0], b[4])
	twosB, ones = carrySave(ones, b[8], b[12])
	foursA, twos = carrySave(twos, twosA, twosB)
	twosA, ones = carrySave(ones, b[16], b[20])
	twosB, ones = carrySave(ones, b[24], b[28])
	foursB, twos = carrySave(twos, twosA, twosB)
	eightsA, fours = carrySave(fours, foursA, foursB)
	twosA, ones = carrySave(ones, b[32], b[36])
	twosB, ones = carrySave(ones, b[40], b[44])
	foursA, twos = carrySave(twos, twosA, twosB)
	twosA, ones = carrySave(ones, b[48], b[52])
	twosB, ones = carrySave(ones, b[56], b[60])
	foursB, twos = carrySave(twos, twosA, twosB)
	eightsB, fours = carrySave(fours, foursA, foursB)
	carry, eights = carrySave(eights, eightsA, eightsB)

	l[0][lane], l[1][lane], l[2][lane], l[3][lane] = ones, twos, fours, eights
	return carry
}

// fold adds the hashes of whole blocks to the lanes.
func (a *Accumulator) fold(hashes []uint64) {
	for len(hashes) > 0 {
		if a.inLanes == maxInLanes {
			a.mergeLanes()
		}
		n := min(len(hashes), maxInLanes-a.inLanes)
		a.lanes.add(hashes[:n])
		a.inLanes += n
		hashes = hashes[n:]
	}
}

// mergeLanes moves the counts of the lanes to the planes.
func (a *Accumulator) mergeLanes() {
	var c0, c1, c2, c3, carry uint64
	k, width := 0, bits.Len(uint(a.inLanes/len(a.lanes[0])))
	for ; k < width; k++ {
		lane, plane := &a.lanes[k], a.planes[k]
		c0, plane = carrySave(lane[0], plane, c0)
		c1, plane = carrySave(lane[1], plane, c1)
		c2, plane = carrySave(lane[2], plane, c2)
		c3, plane = carrySave(lane[3], plane, c3)
		a.planes[k] = plane
		*lane = [4]uint64{}
	}
	for ; c0|c1|c2|c3 != 0 && k < len(a.planes); k++ {
		plane := a.planes[k]
		c0, plane = halfAdd(plane, c0)
		c1, plane = halfAdd(plane, c1)
		c2, plane = halfAdd(plane, c2)
		c3, plane = halfAdd(plane, c3)
		a.planes[k] = plane
	}
	a.top = max(a.top, k)
	a.lo, carry = bits.Add64(a.lo, uint64(a.inLanes), 0)
	a.hi += carry
	a.inLanes = 0
}
