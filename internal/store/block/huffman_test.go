package block

import (
	"cmp"
	"encoding/binary"
	"errors"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/neardup/neardup/internal/store/block/blocktest"
	"pgregory.net/rapid"
)

// The code of section 3.2 of Manku, Jain and Das Sarma, "Detecting Near-Duplicates for Web Crawling", as a
// reference to compare Elias-Fano blocks with. The first fingerprint is whole; each next one is the codeword
// of the position h of the highest bit in which it differs from the one before, then its h lowest bits. A
// probe decodes the block from its beginning.
//
//	count     2 B   fingerprints
//	length    2 B   of the stream, in bytes
//	stream    for each fingerprint but the first: a codeword, then h bits
//	first     8 B   the first fingerprint; behind the stream, so that 8 bytes can be loaded at any bit of it
const huffmanHeader = 2 + 2

// maxCodeLength bounds the codewords, so that one lookup in a table of 4096 entries decodes any of them.
// Against unbounded ones it costs under 64/4096 of the codes, 0.02 bits.
const maxCodeLength = 12

// huffmanCode has a codeword for each h. All blocks of a table share one.
type huffmanCode struct {
	lengths   [64]uint8
	codewords [64]uint16                 // bits reversed: the first is the lowest
	decode    [1 << maxCodeLength]uint16 // position*16 + length, by the next 12 bits
}

// histogramOf counts the positions of the highest bit in which neighbours differ.
func histogramOf(fps []uint64) (h [64]uint64) {
	for i := 1; i < len(fps); i++ {
		h[bits.Len64(fps[i-1]^fps[i])-1]++
	}
	return h
}

func codeOf(fps []uint64) *huffmanCode { return newHuffmanCode(histogramOf(fps)) }

// newHuffmanCode returns the canonical code with the least total length for the histogram among those without
// codewords above 12 bits, by package-merge (Larmore and Hirschberg 1990). A position that was never seen
// counts as seen once, so that every block can be written with every code.
func newHuffmanCode(histogram [64]uint64) *huffmanCode {
	type node struct { // how often it holds each symbol, and their weight
		weight uint64
		counts [64]uint8
	}
	byWeight := func(a, b node) int { return cmp.Compare(a.weight, b.weight) }
	leaves := make([]node, 64)
	for s, n := range histogram {
		leaves[s].weight = min(max(n, 1), 1<<48) // 12 levels of 64 stay within 64 bits
		leaves[s].counts[s] = 1
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
	c := &huffmanCode{}
	for _, chosen := range level[:2*64-2] {
		for s, n := range chosen.counts {
			c.lengths[s] += n
		}
	}
	next := 0 // the codeword, in the top of maxCodeLength bits: shorter ones first, then by position
	for length := 1; length <= maxCodeLength; length++ {
		for position, l := range c.lengths {
			if int(l) != length {
				continue
			}
			c.codewords[position] = bits.Reverse16(uint16(next)) >> (16 - maxCodeLength)
			for i := int(c.codewords[position]); i < len(c.decode); i += 1 << length {
				c.decode[i] = uint16(position<<4 | length)
			}
			next += 1 << (maxCodeLength - length)
		}
	}
	return c
}

func (c *huffmanCode) appendBlock(dst []byte, fps []uint64) []byte {
	dst = binary.LittleEndian.AppendUint16(dst, uint16(len(fps)))
	size := len(dst)
	w := bitWriter{dst: append(dst, 0, 0)}
	for i, fp := range fps[1:] {
		h := bits.Len64(fps[i]^fp) - 1
		w.write(uint64(c.codewords[h]), uint(c.lengths[h]))
		rest := fp & (1<<h - 1)
		w.write(rest&(1<<32-1), uint(min(h, 32)))
		w.write(rest>>32, uint(max(h-32, 0)))
	}
	dst = w.finish()
	binary.LittleEndian.PutUint16(dst[size:], uint16(len(dst)-size-2))
	return binary.LittleEndian.AppendUint64(dst, fps[0])
}

// cut packs fingerprints into blocks of at most size bytes.
func (c *huffmanCode) cut(fps []uint64, size int) (blocks [][]byte) {
	begin, stream := 0, 0
	for i := range fps {
		step := 0
		if i > begin {
			h := bits.Len64(fps[i-1]^fps[i]) - 1
			step = int(c.lengths[h]) + h
		}
		if huffmanHeader+(stream+step+7)/8+8 > size {
			blocks = append(blocks, c.appendBlock(nil, fps[begin:i]))
			begin, stream, step = i, 0, 0
		}
		stream += step
	}
	return append(blocks, c.appendBlock(nil, fps[begin:]))
}

// appendRange decodes the fingerprints of a block in first..last.
func (c *huffmanCode) appendRange(dst []uint64, block []byte, first, last uint64) []uint64 {
	n := int(binary.LittleEndian.Uint16(block))
	stream := block[huffmanHeader:]
	fp := binary.LittleEndian.Uint64(stream[len(stream)-8:])
	bit := uint(0)
	for i := 1; fp <= last; i++ {
		if fp >= first {
			dst = append(dst, fp)
		}
		if i == n {
			break
		}
		word := binary.LittleEndian.Uint64(stream[bit>>3:]) >> (bit & 7)
		entry := c.decode[word%(1<<maxCodeLength)]
		length, h := uint(entry&15), uint(entry>>4&63)
		rest := bit + length
		bit = rest + h
		if length+h <= maxPacked {
			word >>= length
		} else {
			word = binary.LittleEndian.Uint64(stream[rest>>3:]) >> (rest & 7) & (1<<32 - 1)
			rest += 32
			word |= binary.LittleEndian.Uint64(stream[rest>>3:]) >> (rest & 7) << 32
		}
		one := uint64(1) << h
		fp = fp&^(one|(one-1)) | one | word&(one-1)
	}
	return dst
}

func TestHuffmanReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fps := blocktest.Fingerprints(t, 2000)
		code := codeOf(fps)
		var got []uint64
		for _, block := range code.cut(fps, 1024) {
			if len(block) > 1024 {
				t.Fatalf("a block of %d bytes", len(block))
			}
			got = code.appendRange(got, block, 0, math.MaxUint64)
		}
		if !slices.Equal(got, fps) {
			t.Fatalf("%016x, want %016x", got, fps)
		}
		first, last := blocktest.Range(t, fps)
		want, _ := blocktest.InRange(fps, first, last)
		if got := code.appendRange(nil, code.appendBlock(nil, fps), first, last); !slices.Equal(got, want) {
			t.Fatalf("%016x..%016x: %016x, want %016x", first, last, got, want)
		}
	})
}

// Where no codeword would be longer than 12 bits, the total is Huffman's.
func TestHuffmanCodeIsOptimal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h [64]uint64
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		for i := range h {
			h[i] = 1 + random.Uint64N(30)
		}
		total, want := uint64(0), uint64(0)
		for position, length := range newHuffmanCode(h).lengths {
			total += h[position] * uint64(length)
		}
		for weights := h[:]; len(weights) > 1; {
			slices.Sort(weights)
			weights[1] += weights[0]
			weights = weights[1:]
			want += weights[0]
		}
		if total != want {
			t.Fatalf("%d bits, want %d", total, want)
		}
	})
}

// No index has Huffman blocks: one is refused.
func TestHuffmanBlockIsRefused(t *testing.T) {
	fps := []uint64{1, 5, 9}
	for _, codec := range []byte{1, 0x81} {
		if err := new(Block).Open(append([]byte{codec}, codeOf(fps).appendBlock(nil, fps)...)); !errors.Is(err, ErrCorrupt) {
			t.Error(err)
		}
	}
}
