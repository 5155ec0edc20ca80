package fingerprint

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

// findBoundaries sets t.boundaries to the places in the first n bytes of out where a token
// begins or ends. What follows them up to a multiple of 64 must be zeros.
func (t *tokenizer) findBoundaries(out []byte, n int) {
	blocks := n/64 + 1
	t.masks = slices.Grow(t.masks[:0], blocks)[:blocks]
	notZeros(t.masks, out[:64*blocks])
	edges, found, before := t.boundaries, 0, uint64(0)
	for i, mask := range t.masks {
		edges = slices.Grow(edges[:found], 64)
		room := edges[found : found+64]
		at := 64 * i
		changes := mask ^ (mask<<1 | before)
		before = mask >> 63
		count := bits.OnesCount64(changes)
		for k := 0; k < count; k += 8 { // the branch is taken two or three times as a rule
			eight := (*[8]uint32)(room[k:])
			eight[0], changes = uint32(at+bits.TrailingZeros64(changes)), changes&(changes-1)
			eight[1], changes = uint32(at+bits.TrailingZeros64(changes)), changes&(changes-1)
			eight[2], changes = uint32(at+bits.TrailingZeros64(changes)), changes&(changes-1)
			eight[3], changes = uint32(at+bits.TrailingZeros64(changes)), changes&(changes-1)
			eight[4], changes = uint32(at+bits.TrailingZeros64(changes)), changes&(changes-1)
			eight[5], changes = uint32(at+bits.TrailingZeros64(changes)), changes&(changes-1)
			eight[6], changes = uint32(at+bits.TrailingZeros64(changes)), changes&(changes-1)
			eight[7], changes = uint32(at+bits.TrailingZeros64(changes)), changes&(changes-1)
		}
		found += count
	}
	t.boundaries = edges[:found]
}

// notZeros sets a bit of the masks for each byte of b that is not 0, the first the lowest.
// b has 64 bytes for each mask.
func notZeros(masks []uint64, b []byte) {
	for i := range masks {
		block := (*[64]byte)(b[64*i:])
		mask := uint64(0)
		for k := 56; k >= 0; k -= 8 {
			mask = mask<<8 | notZero(binary.LittleEndian.Uint64(block[k:]))
		}
		masks[i] = mask
	}
}
