package block

import (
	"encoding/binary"
	"math/bits"
	"unsafe"
)

// Comparison compares low bits with a fingerprint. It is not safe for concurrent use.
//
// Eight low bits of a width take that many bytes together, so each of them has the same place in
// every group of eight, and needs no shift: it is compared in the word around it.
type Comparison struct {
	fp uint64
	k  int

	// The rest depends on width, which is 0 before the first block.
	width   uint
	places  [8]uintptr // of the words in a group
	queries [8]uint64  // the low bits of fp, as they lie in the words
	masks   [8]uint64
	bytes   [8]uint64 // the places of the bytes of each word, a byte each
	group   uint64    // the bytes of a group, as the bits of a mask
}

// Begin begins a comparison. Fingerprints that differ from fp in at most k bits are near.
func (c *Comparison) Begin(fp uint64, k int) {
	if c.fp != fp || c.k != k {
		c.fp, c.k, c.width = fp, k, 0
	}
}

// prepare prepares the comparison for low bits of a width.
func (c *Comparison) prepare(width uint) {
	c.width, c.group = width, ^uint64(0)>>(maxPacked-width)
	up := (64 - width) & 63
	for i := range c.places {
		last := uint(i+1)*width - 1 // the highest bit
		down := ^last & 7
		c.places[i] = uintptr(last >> 3)
		c.queries[i], c.masks[i] = c.fp<<up>>down, ^uint64(0)<<up>>down
		c.bytes[i] = uint64(last>>3)*everyByte + firstBytes
	}
}

// firstBytes has the places of the first eight bytes, the first in the lowest byte.
const firstBytes = 0x0706050403020100

// AppendNear appends the positions between from (inclusive) and to (exclusive) whose low bits are
// near.
func (b *Block) AppendNear(dst []int, from, to int, c *Comparison) []int {
	lows, i := b.data[b.lows:b.end], from
	if to-from >= manyLows {
		dst, i = b.appendNearEights(dst, from, to, c)
	}
	for query := c.fp & b.lowMask(); i < to; i++ {
		if bits.OnesCount64(packedField(lows, i, b.width)^query) <= c.k {
			dst = append(dst, i)
		}
	}
	return dst
}

// manyLows is the number of fingerprints from which prepare pays. It is above 8, so that the last
// complete group of eight ends after the first fingerprint.
const manyLows = 16

// appendNearEights is AppendNear for groups of eight positions. It stops after the last complete
// group, or after the group that contains to, and returns the end.
func (b *Block) appendNearEights(dst []int, from, to int, c *Comparison) (near []int, end int) {
	lows, width := b.data[b.lows:b.end], int(b.width)
	if c.width != b.width {
		c.prepare(b.width)
	}
	// The bytes exist: openEliasFano checks this for positions below Len, and last for groups of
	// eight.
	last := min((to+7)/8, (len(lows)-7)/width)
	start := unsafe.Pointer(unsafe.SliceData(lows))
	for group := from / 8; group < last; group++ {
		passed, found := c.passFar(unsafe.Add(start, group*width), last-group)
		group += passed
		for ; found != 0; found &= found - 1 {
			if at := 8*group + bits.TrailingZeros8(found); at >= from && at < to {
				dst = append(dst, at)
			}
		}
	}
	return dst, 8 * last
}

// passFarWords returns the number of groups from eights on before the first one with near low bits,
// and which of its low bits are near. It looks at n groups. If none of them is near, it returns n.
func (c *Comparison) passFarWords(eights unsafe.Pointer, n int) (passed int, near uint8) {
	k := c.k
	for ; passed < n; passed++ {
		// without a loop: that would take a fifth longer
		if c.distance(eights, 0) <= k {
			near |= 1 << 0
		}
		if c.distance(eights, 1) <= k {
			near |= 1 << 1
		}
		if c.distance(eights, 2) <= k {
			near |= 1 << 2
		}
		if c.distance(eights, 3) <= k {
			near |= 1 << 3
		}
		if c.distance(eights, 4) <= k {
			near |= 1 << 4
		}
		if c.distance(eights, 5) <= k {
			near |= 1 << 5
		}
		if c.distance(eights, 6) <= k {
			near |= 1 << 6
		}
		if c.distance(eights, 7) <= k {
			near |= 1 << 7
		}
		if near != 0 {
			break
		}
		eights = unsafe.Add(eights, c.width)
	}
	return passed, near
}

func (c *Comparison) distance(eights unsafe.Pointer, i int) int {
	word := binary.LittleEndian.Uint64((*[8]byte)(unsafe.Add(eights, c.places[i]))[:])
	return bits.OnesCount64((word ^ c.queries[i]) & c.masks[i])
}
