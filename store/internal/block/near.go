package block

import (
	"encoding/binary"
	"math/bits"
	"unsafe"
)

// Comparison compares the low bits of fingerprints with a fingerprint. It is not safe for
// concurrent use.
//
// The low bits of eight fingerprints occupy as many bytes as the width has bits. So field i of
// every such group has the same place, and is compared without a shift in the 8-byte word around
// it.
type Comparison struct {
	fp uint64
	k  int

	// These fields depend on width, which is 0 before the first block.
	width   uint
	places  [8]uintptr // offsets of the words in a group
	queries [8]uint64  // the low bits of fp, at their places in the words
	masks   [8]uint64  // the bits of the fields in the words
	bytes   [8]uint64  // the offsets of the 8 bytes of each word, for VPERMB
	group   uint64     // a mask with one bit per byte of a group
}

// Begin begins a comparison. Fingerprints that differ from fp in at most k bits are near.
func (c *Comparison) Begin(fp uint64, k int) {
	if c.fp != fp || c.k != k {
		c.fp, c.k, c.width = fp, k, 0
	}
}

// prepare sets the fields that depend on the width of the low bits.
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

// firstBytes has the offsets of the first eight bytes of a group, the first in the lowest byte.
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

// manyLows is the smallest number of fingerprints for which prepare saves time. It is above 8, so
// that the last complete group of eight ends after the first fingerprint.
const manyLows = 16

// appendNearEights is AppendNear for groups of eight positions. It stops after the last complete
// group of the block, or after the group that contains to, and returns the end of that group.
func (b *Block) appendNearEights(dst []int, from, to int, c *Comparison) (near []int, end int) {
	lows, width := b.data[b.lows:b.end], int(b.width)
	if c.width != b.width {
		c.prepare(b.width)
	}
	// All bytes that passFar reads exist: openEliasFano checks the length of the low bits, and last
	// excludes a group that is not complete.
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

// passFarWords searches n groups, of which the first begins at eights, for a group with near low
// bits. It returns the number of groups before this group, and a bit per field of the group that is
// near. If it finds no group, it returns n and 0.
func (c *Comparison) passFarWords(eights unsafe.Pointer, n int) (passed int, near uint8) {
	k := c.k
	for ; passed < n; passed++ {
		// unrolled: a loop takes a fifth longer
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
