package selfjoin

import (
	"math/bits"

	"github.com/neardup/neardup/fingerprint"
)

type fp = fingerprint.Fingerprint

// differing returns the bits in which fingerprints differ.
func differing(fps []fp) fp {
	or, and := fp(0), ^fp(0)
	for _, f := range fps {
		or |= f
		and &= f
	}
	return or &^ and
}

// key takes some bits of a fingerprint: equal blocks have equal keys.
type key struct {
	block    fp // of these bits
	multiply fp
	shift    uint8
	width    uint8 // bits of the key
}

// keyOf returns the key of a block in at most some bits. If they are fewer than the
// block reaches over, different blocks may have equal keys.
func keyOf(block fp, width int) key {
	k := key{block: block, multiply: 0x9e3779b97f4a7c15}
	high, low := bits.Len64(uint64(block)), bits.TrailingZeros64(uint64(block))
	if reach := high - low; reach <= width {
		width = reach
		k.multiply = 1 << (64 - high) // the bits themselves
	}
	k.width, k.shift = uint8(width), uint8(64-width)
	return k
}

func (k *key) of(f fp) uint { return uint(f & k.block * k.multiply >> (k.shift & 63)) }

// lowest returns the lowest n bits of a mask.
func lowest(mask fp, n int) fp {
	rest := mask
	for range n {
		rest &= rest - 1
	}
	return mask &^ rest
}

// blocksOf cuts equal blocks from a mask, the lowest bits first.
func blocksOf(mask fp, n int, width float64, blocks []fp) []fp {
	cut := 0
	for i := 1; i <= n; i++ {
		end := int(float64(i)*width + 1e-9)
		b := lowest(mask, end-cut)
		blocks = append(blocks, b)
		mask &^= b
		cut = end
	}
	return blocks
}
