package block

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"

	"github.com/neardup/neardup/internal/fault"
)

// Elias-Fano blocks (docs/format-blocks.md). A fingerprint consists of its low bits, which
// are packed at a fixed width, and the bits above them, the bucket. Buckets are numbered
// from the bucket of the first fingerprint and written in unary: a 1 for each fingerprint,
// and a 0 for each step to the next bucket. A probe finds its range by counting zeros in a
// few words, and reads the low bits of any position without decoding others. The low bits
// belong to the fingerprint itself, not to a difference, so that a caller can compare them
// bit by bit (see AppendNear).
const (
	eliasFanoHeader = 1 + 1 + 2 + 2
	// At least this many bytes follow the unary part, so that its last word can be
	// loaded at once.
	eliasFanoMinLows = 7
	// MaxLen is the largest number of fingerprints in a block. The fields count and zeros have two
	// bytes each, and a block has at most 2 zeros per fingerprint and 128 more.
	MaxLen = 32000
)

// lowWidth returns floor(log2(span/n)), within 1 to 57. This width minimizes the size of the
// block: a wider field saves less than one zero per fingerprint, and a narrower field costs at
// least one. The block then has 1 to 2 zeros per fingerprint.
func lowWidth(n int, first, last uint64) uint {
	span := last - first
	width := bits.Len64(span) - bits.Len64(uint64(n))
	if width > 0 && span>>uint(width) < uint64(n) {
		width--
	}
	return uint(min(max(width, 1), maxPacked))
}

func bucketBytes(width uint) int { return int(64-width+7) / 8 }

func eliasFanoSize(n int, first, last uint64) int {
	width := lowWidth(n, first, last)
	zeros := int(last>>width - first>>width)
	return eliasFanoHeader + bucketBytes(width) + (n+zeros+1+7)/8 +
		max(packedSize(n, width), eliasFanoMinLows)
}

// appendEliasFano appends the encoding of at least one, strictly ascending fingerprints.
func appendEliasFano(dst []byte, fps []uint64, flags byte) []byte {
	first, last := fps[0], fps[len(fps)-1]
	width := lowWidth(len(fps), first, last)
	bucket := first >> width
	zeros := last>>width - bucket
	dst = append(dst, eliasFano|flags, byte(width))
	dst = binary.LittleEndian.AppendUint16(dst, uint16(len(fps)))
	dst = binary.LittleEndian.AppendUint16(dst, uint16(zeros))
	var eight [8]byte
	binary.LittleEndian.PutUint64(eight[:], bucket)
	dst = append(dst, eight[:bucketBytes(width)]...)

	high := len(dst)
	dst = append(dst, make([]byte, (len(fps)+int(zeros)+1+7)/8)...)
	for i, fp := range fps {
		bit := int(fp>>width-bucket) + i
		dst[high+bit>>3] |= 1 << (bit & 7)
	}
	lows := len(dst)
	packer := bitWriter{dst: dst}
	for _, fp := range fps {
		packer.write(fp&(1<<width-1), width)
	}
	dst = packer.finish()
	for len(dst)-lows < eliasFanoMinLows {
		dst = append(dst, 0)
	}
	return dst
}

// openEliasFano checks every length once. All other functions read only words within these
// lengths, so they stay inside data for any bits.
func (b *Block) openEliasFano() error {
	data := b.data
	if len(data) < eliasFanoHeader+8 {
		return fmt.Errorf("%w: block of %d bytes is too short", fault.ErrCorrupt, len(data))
	}
	header := binary.LittleEndian.Uint64(data)
	width := uint(header >> 8 & 0xff)
	b.n = int(header >> 16 & 0xffff)
	zeros := int(header >> 32 & 0xffff)
	if b.n == 0 || width == 0 || width > maxPacked {
		return fmt.Errorf("%w: block of %d fingerprints with %d low bits",
			fault.ErrCorrupt, b.n, width)
	}
	b.width = width
	b.zeros = uint64(zeros)
	b.bucket = binary.LittleEndian.Uint64(data[eliasFanoHeader:]) << (width & 63) >> (width & 63)
	b.high = eliasFanoHeader + bucketBytes(width)
	lows := b.high + (b.n+zeros+1+7)/8
	b.lows = lows - 7
	b.end = lows + max(packedSize(b.n, width), eliasFanoMinLows)
	if b.end > len(data) {
		return fmt.Errorf("%w: block has %d bytes, its %d fingerprints take %d", fault.ErrCorrupt,
			len(data), b.n, b.end)
	}
	return nil
}

// unary returns the unary part, with at least 7 bytes after it, and the number of its
// words. Bits of the last word may belong to the low bits.
func (b *Block) unary() (high []byte, words int) {
	return b.data[b.high:], (b.n + int(b.zeros) + 1 + 63) / 64
}

func (b *Block) low(i int) uint64 { return packedField(b.data[b.lows:], i, b.width) }

// positions is a range of fingerprints of a block, between from (inclusive) and to
// (exclusive). The first 1 of the unary part at or after bit belongs to from.
type positions struct {
	from, to int
	bit      uint
	stop     uint // the 0 that ends the bucket of the last fingerprint
}

// eliasFanoRange finds the fingerprints from first to last, inclusive.
func (b *Block) eliasFanoRange(first, last uint64) positions {
	width := b.width & 63
	lo, hi, end := first>>width, last>>width, b.bucket+b.zeros
	if first > last || hi < b.bucket || lo > end {
		return positions{}
	}
	high, words := b.unary()
	word, before := 0, uint64(0) // before: the zeros before word
	r := positions{to: b.n}
	stop := uint(b.n) + uint(b.zeros) // the 0 that ends the last bucket
	if lo > b.bucket {
		// The bucket lo begins after the zero that ends the previous bucket.
		var zero uint
		rank := lo - b.bucket
		if zero, word, before = selectZero(high, words, 0, 0, rank-1); zero > stop {
			return positions{}
		}
		r.bit = zero + 1
		r.from = int(r.bit - uint(rank))
	}
	if hi < end {
		rank := hi - b.bucket
		zero, _, _ := selectZero(high, words, word, before, rank)
		stop = min(zero, stop)
		r.to = int(stop - uint(rank))
	}
	r.to = min(r.to, b.n) // corrupt bits can yield more
	r.stop = stop
	return r
}

// selectZero returns the position of the zero that has rank zeros before it, its word, and the
// number of zeros before that word, from which a search for a later zero can continue. If no such
// zero exists, the position is after all words.
func selectZero(
	high []byte, words, word int, before, rank uint64,
) (bit uint, at int, zeros uint64) {
	for ; word < words; word++ {
		inverse := ^binary.LittleEndian.Uint64(high[word*8:])
		n := uint64(bits.OnesCount64(inverse))
		if before+n > rank {
			return uint(word)*64 + selectBit(inverse, uint(rank-before)), word, before
		}
		before += n
	}
	return uint(words)*64 + 1, word, before
}

// trim removes the fingerprints that are not from first to last, which are in the first and the
// last bucket of r.
func (b *Block) trim(r *positions, first, last uint64) {
	high := b.data[b.high:]
	mask := b.lowMask()
	if low := first & mask; low != 0 && first>>(b.width&63) >= b.bucket {
		for r.from < r.to && isSet(high, r.bit) && b.low(r.from) < low {
			r.from++
			r.bit++
		}
	}
	if low := last & mask; low != mask && last>>(b.width&63) <= b.bucket+b.zeros {
		for r.from < r.to && r.stop > 0 && isSet(high, r.stop-1) && b.low(r.to-1) > low {
			r.to--
			r.stop--
		}
	}
}

func isSet(bitmap []byte, bit uint) bool { return bitmap[bit>>3]>>(bit&7)&1 != 0 }

// appendPositions decodes and appends the fingerprints at the positions r.
func (b *Block) appendPositions(dst []uint64, r positions) []uint64 {
	if r.from >= r.to {
		return dst
	}
	begin := len(dst)
	dst = slices.Grow(dst, r.to-r.from)[:begin+r.to-r.from]
	out := dst[begin:]
	high, words := b.unary()
	lows, width := b.data[b.lows:b.end], b.width
	word := int(r.bit / 64)
	ones := binary.LittleEndian.Uint64(high[word*8:]) >> (r.bit & 63) << (r.bit & 63)
	for i := 0; ; {
		bucket := b.bucket + uint64(word*64-r.from)
		for ; ones != 0; ones &= ones - 1 {
			at := bucket + uint64(bits.TrailingZeros64(ones)-i)
			out[i] = at<<(width&63) | packedField(lows, r.from+i, width)
			if i++; i == len(out) {
				return dst
			}
		}
		if word++; word >= words {
			return dst[:begin+i] // corrupt bits: fewer ones than fingerprints
		}
		ones = binary.LittleEndian.Uint64(high[word*8:])
	}
}

// At returns the fingerprint at position i, 0 to Len()-1: a select over the unary part.
func (b *Block) At(i int) uint64 {
	high, words := b.unary()
	before := 0
	for word := range words {
		ones := binary.LittleEndian.Uint64(high[word*8:])
		n := bits.OnesCount64(ones)
		if i < before+n {
			bit := word*64 + int(selectBit(ones, uint(i-before)))
			return (b.bucket+uint64(bit-i))<<(b.width&63) | b.low(i)
		}
		before += n
	}
	return b.Last() // corrupt bits: fewer ones than fingerprints
}
