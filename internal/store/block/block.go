// Package block lays ascending fingerprints, and the documents of each, into blocks of about 1 KB
// (docs/format-blocks.md), and lists of document IDs (docs/format.md).
//
// It guarantees that what is read back is what was written, and that bytes which no writer could have
// made are ErrCorrupt and never a panic or memory without bound. A Block over given bytes does not
// change and may be read from several goroutines at once; a Writer is for one.
package block

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"unsafe"

	"github.com/neardup/neardup/internal/fault"
)

// ErrCorrupt: bytes do not follow the format.
var ErrCorrupt = fault.ErrCorrupt

const (
	// eliasFano is the codec byte of a block. 1 was that of the paper's Huffman code, which no index was
	// ever written with.
	eliasFano = 2

	// withPostings is set in the codec byte of a block that has postings.
	withPostings = 0x80
)

// Block reads a packed run of consecutive fingerprints of one table. It refers to
// the bytes it was opened over, holds no other memory, and may be used from
// several goroutines at once as long as these bytes do not change.
//
// Bytes that are not a block, or a broken one, may give wrong fingerprints but
// never a panic; Verify finds out.
type Block struct {
	data       []byte
	n          int
	end        int    // of the fingerprints in data; the postings are behind
	width      uint   // of the low bits
	bucket     uint64 // of the first fingerprint
	zeros      uint64 // buckets from there to that of the last
	high, lows int    // the unary part; 7 bytes before the low bits
}

// Open makes b the block in data. It reads the header only: fingerprints are decoded when they are
// asked for. It allocates nothing and takes some nanoseconds.
func (b *Block) Open(data []byte) error {
	if len(data) == 0 {
		return fmt.Errorf("%w: empty block", ErrCorrupt)
	}
	if data[0]&^withPostings != eliasFano {
		return fmt.Errorf("%w: block of unknown codec %#02x", ErrCorrupt, data[0])
	}
	b.data = data
	if err := b.openEliasFano(); err != nil {
		return err
	}
	if b.end != len(data) && !b.HasPostings() {
		return fmt.Errorf("%w: block has %d bytes, its fingerprints end at %d", ErrCorrupt, len(data), b.end)
	}
	return nil
}

// HasPostings reports whether the block is one of table 0.
func (b *Block) HasPostings() bool { return b.data[0]&withPostings != 0 }

// Len returns the number of fingerprints, at least 1.
func (b *Block) Len() int { return b.n }

// First returns the smallest fingerprint.
func (b *Block) First() uint64 { return b.At(0) }

// Last returns the largest fingerprint, under which the block is stored.
func (b *Block) Last() uint64 {
	return (b.bucket+b.zeros)<<(b.width&63) | b.low(b.n-1)
}

// AppendRange appends the fingerprints in first..last, both included, in
// ascending order, and returns the position of the first of them in the block
// (without meaning if there are none).
func (b *Block) AppendRange(dst []uint64, first, last uint64) (fps []uint64, at int) {
	r := b.eliasFanoRange(first, last)
	b.trim(&r, first, last)
	return b.appendPositions(dst, r), r.from
}

// AppendTo appends all fingerprints in ascending order.
func (b *Block) AppendTo(dst []uint64) []uint64 {
	return b.appendPositions(dst, positions{to: b.n})
}

// Verify decodes the whole block and reports the first thing in it that does not
// follow the format.
func (b *Block) Verify() error {
	if (b.bucket+b.zeros)>>(64-b.width) != 0 {
		return fmt.Errorf("%w: buckets %x to %x of a block are more than fingerprints of 64 bits have", ErrCorrupt, b.bucket, b.bucket+b.zeros)
	}
	fps := b.AppendTo(nil)
	if len(fps) != b.n {
		return fmt.Errorf("%w: block breaks off after fingerprint %d of %d", ErrCorrupt, len(fps), b.n)
	}
	for i := 1; i < len(fps); i++ {
		if fps[i-1] >= fps[i] {
			return fmt.Errorf("%w: fingerprint %d of a block, %016x, follows %016x", ErrCorrupt, i, fps[i], fps[i-1])
		}
	}
	if fps[len(fps)-1] != b.Last() {
		return fmt.Errorf("%w: block ends with %016x, not %016x", ErrCorrupt, fps[len(fps)-1], b.Last())
	}
	if b.HasPostings() {
		return b.verifyPostings()
	}
	return nil
}

var errContent = errors.New("fingerprints do not make a block")

// Append appends a block of these fingerprints, 1 to 32000 of them and
// strictly ascending, without postings.
func Append(dst []byte, fps []uint64) ([]byte, error) {
	if len(fps) == 0 || len(fps) > MaxLen {
		return dst, fmt.Errorf("%w: %d of them, not 1 to %d", errContent, len(fps), MaxLen)
	}
	for i := 1; i < len(fps); i++ {
		if fps[i-1] >= fps[i] {
			return dst, fmt.Errorf("%w: %016x follows %016x", errContent, fps[i], fps[i-1])
		}
	}
	return appendEliasFano(dst, fps, 0), nil
}

// LowBits are the low bits of the fingerprints of a block, each at its position:
// what can be had of a fingerprint with one load. A caller that wants few of many
// fingerprints looks at these first and asks Block.At for those that may be wanted.
type LowBits struct {
	bytes []byte // 7 before the first field
	width uint
}

// LowBits returns the low bits, and positions, from the one at from to the one before
// to, among which are all of the fingerprints in first..last. There may be a few
// others at both ends, that differ from first or last in their low bits only: who
// compares anyway need not pay for finding the exact ends. ok is false if there are
// too few low bits to tell fingerprints apart. Then AppendRange is the way.
func (b *Block) LowBits(first, last uint64) (lows LowBits, from, to int, ok bool) {
	if b.width < minTellingLows {
		return LowBits{}, 0, 0, false
	}
	r := b.eliasFanoRange(first, last)
	return LowBits{b.data[b.lows:b.end], b.width}, r.from, r.to, true
}

// minTellingLows is the width from which on low bits are worth a look of their own.
const minTellingLows = 16

// AppendNear appends the positions, from the one at from to the one before to, whose low bits
// differ in at most k from those of a fingerprint.
func (l LowBits) AppendNear(dst []int, from, to int, fp uint64, k int) []int {
	if to-from < manyLows {
		query := fp & l.Mask()
		for i := from; i < to; i++ {
			if bits.OnesCount64(l.At(i)^query) <= k {
				dst = append(dst, i)
			}
		}
		return dst
	}
	// A field may end at each of the 8 bits of a byte, so there are 8 ways in which the word around
	// it is compared, and none has to be shifted.
	var queries, masks [8]uint64
	for i := range queries {
		up := (64 - l.width) & 63
		queries[i], masks[i] = fp<<up>>i, l.Mask()<<up>>i
	}
	// Positions are below Len, so openEliasFano has seen to it that the words are there.
	first := unsafe.Pointer(unsafe.SliceData(l.bytes))
	beyond := func(end uint) int {
		word := binary.LittleEndian.Uint64((*[8]byte)(unsafe.Add(first, end>>3))[:])
		return bits.OnesCount64((word^queries[^end&7])&masks[^end&7]) - k - 1
	}
	end, i := uint(from+1)*l.width-1, from
	for ; i+4 <= to; i += 4 {
		if beyond(end)|beyond(end+l.width)|beyond(end+2*l.width)|beyond(end+3*l.width) < 0 {
			for j := range 4 {
				if beyond(end+uint(j)*l.width) < 0 {
					dst = append(dst, i+j)
				}
			}
		}
		end += 4 * l.width
	}
	for ; i < to; i++ {
		if beyond(end) < 0 {
			dst = append(dst, i)
		}
		end += l.width
	}
	return dst
}

// manyLows is from how many fingerprints on it is worth making ready to compare them.
const manyLows = 16

// Fetch begins to bring the low bits of these positions into the cache of the processor, and
// waits for nothing. The caller must use the value, which says nothing.
func (l LowBits) Fetch(from, to int) (value uint64) {
	const line = 64
	for at := uint(from) * l.width >> 3; at < uint(to)*l.width>>3; at += line {
		value ^= uint64(l.bytes[at])
	}
	return value
}

// Mask has the bits set that At returns.
func (l LowBits) Mask() uint64 { return 1<<(l.width&63) - 1 }

// At returns the low bits of the fingerprint at a position, its others 0.
func (l LowBits) At(i int) uint64 { return packedField(l.bytes, i, l.width) }
