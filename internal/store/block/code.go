package block

import (
	"fmt"
	"math/bits"
	"slices"
)

const (
	// maxCodeLength bounds the codewords, so that one lookup in a table of 4096
	// entries (8 KiB, a quarter of a small L1 cache) decodes any of them. Against
	// unbounded codewords it costs under 64/4096 of the codes, 0.02 bits.
	maxCodeLength = 12
	// huffmanCodeBytes is the size of a code on disk.
	huffmanCodeBytes = 64 / 2
)

// HuffmanCode is the code of a table's blocks of codec Huffman: a codeword
// for each position 0..63 of the highest bit in which a fingerprint differs from
// the one before. It is not changed once it is made, so it may be shared.
type HuffmanCode struct {
	lengths   [64]uint8
	codewords [64]uint16                 // bits reversed: the first is the lowest
	decode    [1 << maxCodeLength]uint16 // position*16 + length, by the next 12 bits
}

// BitHistogram counts the positions of the highest bit in which a fingerprint of
// a table differs from the one before.
type BitHistogram [64]uint64

// Add counts one pair of neighbours; previous is below next.
func (h *BitHistogram) Add(previous, next uint64) {
	h[bits.Len64(previous^next)-1]++
}

// NewHuffmanCode returns the canonical code with the least total length for the
// histogram among those without codewords above 12 bits. A position that was never
// seen counts as seen once, so that every block can be written with every code.
func NewHuffmanCode(histogram *BitHistogram) *HuffmanCode {
	var lengths [64]uint8
	for _, symbol := range packageMerge(histogram) {
		for s, n := range symbol {
			lengths[s] += n
		}
	}
	return newHuffmanCode(lengths)
}

// codePackage is a node of the package-merge algorithm (Larmore and Hirschberg
// 1990): how often it holds each symbol, and their weight.
type codePackage struct {
	weight uint64
	counts [64]uint8
}

// packageMerge returns the packages of which the symbols' counts are the lengths
// of their codewords.
func packageMerge(histogram *BitHistogram) [][64]uint8 {
	leaves := make([]codePackage, 64)
	for s, n := range histogram {
		leaves[s].weight = min(max(n, 1), 1<<48) // 12 levels of 64 stay within 64 bits
		leaves[s].counts[s] = 1
	}
	byWeight := func(a, b codePackage) int {
		switch {
		case a.weight < b.weight:
			return -1
		case a.weight > b.weight:
			return 1
		}
		return 0
	}
	slices.SortStableFunc(leaves, byWeight)
	level := leaves
	for range maxCodeLength - 1 {
		next := slices.Clone(leaves)
		for i := 0; i+1 < len(level); i += 2 {
			pair := level[i]
			pair.weight += level[i+1].weight
			for s := range pair.counts {
				pair.counts[s] += level[i+1].counts[s]
			}
			next = append(next, pair)
		}
		slices.SortStableFunc(next, byWeight)
		level = next
	}
	chosen := make([][64]uint8, 2*64-2)
	for i := range chosen {
		chosen[i] = level[i].counts
	}
	return chosen
}

// newHuffmanCode gives the codewords to lengths that make a complete code:
// shorter ones first, then by position.
func newHuffmanCode(lengths [64]uint8) *HuffmanCode {
	c := &HuffmanCode{lengths: lengths}
	next := 0 // the codeword, in the top of maxCodeLength bits
	for length := 1; length <= maxCodeLength; length++ {
		step := 1 << (maxCodeLength - length)
		for position, l := range lengths {
			if int(l) != length {
				continue
			}
			reversed := bits.Reverse16(uint16(next)) >> (16 - maxCodeLength)
			c.codewords[position] = reversed
			for i := int(reversed); i < len(c.decode); i += 1 << length {
				c.decode[i] = uint16(position<<4 | length)
			}
			next += step
		}
	}
	return c
}

// MarshalBinary returns the lengths of the codewords, 4 bits each: 32 bytes.
func (c *HuffmanCode) MarshalBinary() ([]byte, error) {
	dst := make([]byte, huffmanCodeBytes)
	for position, length := range c.lengths {
		dst[position/2] |= length << (position % 2 * 4)
	}
	return dst, nil
}

// ParseHuffmanCode reads what MarshalBinary wrote.
func ParseHuffmanCode(src []byte) (*HuffmanCode, error) {
	if len(src) != huffmanCodeBytes {
		return nil, fmt.Errorf("%w: Huffman code of %d bytes, not %d", ErrCorrupt, len(src), huffmanCodeBytes)
	}
	var lengths [64]uint8
	sum := 0
	for position := range lengths {
		length := src[position/2] >> (position % 2 * 4) & 15
		if length < 1 || length > maxCodeLength {
			return nil, fmt.Errorf("%w: Huffman codeword %d has %d bits, not 1 to %d", ErrCorrupt, position, length, maxCodeLength)
		}
		lengths[position] = length
		sum += 1 << (maxCodeLength - length)
	}
	if sum != 1<<maxCodeLength {
		return nil, fmt.Errorf("%w: Huffman codewords fill %d/4096 of the code", ErrCorrupt, sum)
	}
	return newHuffmanCode(lengths), nil
}
