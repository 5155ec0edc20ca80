// Package block encodes ascending fingerprints, and the documents of each, as blocks of about 1 KB
// (docs/format-blocks.md). It also encodes lists of document IDs (docs/format.md).
//
// Bytes that a Writer cannot have written cause fault.ErrCorrupt, but never a panic or unbounded
// memory. A Block is immutable and safe for concurrent use. A Writer is not safe for concurrent
// use.
package block

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/neardup/neardup/internal/fault"
	"github.com/neardup/neardup/internal/prefetch"
)

const (
	// eliasFano is the codec byte of a block. Codec 1, the Huffman code of the paper, is not used.
	eliasFano = 2

	// withPostings is set in the codec byte of a block that has postings.
	withPostings = 0x80
)

// Block reads consecutive fingerprints of one table. It refers to the bytes with which it
// was opened and holds no other memory. It is safe for concurrent use as long as these
// bytes do not change.
//
// The methods of a corrupt block may return wrong fingerprints, but they do not panic.
// Verify detects corruption.
type Block struct {
	data       []byte
	n          int
	end        int    // end of the fingerprints in data; the postings follow
	width      uint   // of the low bits
	bucket     uint64 // of the first fingerprint
	zeros      uint64 // bucket of the last fingerprint minus bucket of the first
	high, lows int    // offsets of the unary part, and of the byte 7 bytes before the low bits
}

// Open opens b over data, which it refers to. It reads only the header. Other methods decode
// fingerprints when they need them. Open does not allocate and takes a few nanoseconds.
func (b *Block) Open(data []byte) error {
	if len(data) == 0 {
		return fmt.Errorf("%w: empty block", fault.ErrCorrupt)
	}
	if data[0]&^withPostings != eliasFano {
		return fmt.Errorf("%w: block of unknown codec %#02x", fault.ErrCorrupt, data[0])
	}
	b.data = data
	if err := b.openEliasFano(); err != nil {
		return err
	}
	if b.end != len(data) && !b.HasPostings() {
		return fmt.Errorf("%w: block has %d bytes, its fingerprints end at %d", fault.ErrCorrupt,
			len(data), b.end)
	}
	return nil
}

// HasPostings reports whether the block belongs to table 0.
func (b *Block) HasPostings() bool { return b.data[0]&withPostings != 0 }

// Len returns the number of fingerprints, at least 1.
func (b *Block) Len() int { return b.n }

// First returns the smallest fingerprint.
func (b *Block) First() uint64 { return b.At(0) }

// Last returns the largest fingerprint, which is the key of the stored block.
func (b *Block) Last() uint64 {
	return (b.bucket+b.zeros)<<(b.width&63) | b.low(b.n-1)
}

// AppendRange appends the fingerprints from first to last, inclusive, in ascending order.
// It also returns the position of the first of them in the block, which is undefined if
// there are none.
func (b *Block) AppendRange(dst []uint64, first, last uint64) (fps []uint64, at int) {
	r := b.eliasFanoRange(first, last)
	b.trim(&r, first, last)
	return b.appendPositions(dst, r), r.from
}

// AppendTo appends all fingerprints in ascending order.
func (b *Block) AppendTo(dst []uint64) []uint64 {
	return b.appendPositions(dst, positions{to: b.n})
}

// Verify decodes the whole block and returns an error for the first violation of the
// format.
func (b *Block) Verify() error {
	if (b.bucket+b.zeros)>>(64-b.width) != 0 {
		return fmt.Errorf("%w: fingerprints in buckets %x to %x of a block would exceed 64 bits",
			fault.ErrCorrupt, b.bucket, b.bucket+b.zeros)
	}
	fps := b.AppendTo(nil)
	if len(fps) != b.n {
		return fmt.Errorf("%w: block ends after fingerprint %d of %d",
			fault.ErrCorrupt, len(fps), b.n)
	}
	for i := 1; i < len(fps); i++ {
		if fps[i-1] >= fps[i] {
			return fmt.Errorf("%w: fingerprint %d of a block, %016x, follows %016x",
				fault.ErrCorrupt, i, fps[i], fps[i-1])
		}
	}
	if fps[len(fps)-1] != b.Last() {
		return fmt.Errorf("%w: block ends with %016x, not %016x", fault.ErrCorrupt,
			fps[len(fps)-1], b.Last())
	}
	if b.HasPostings() {
		return b.verifyPostings()
	}
	return nil
}

var errContent = errors.New("invalid fingerprints for a block")

// Encode returns a block of 1 to 32000 strictly ascending fingerprints, without postings.
func Encode(fps []uint64) ([]byte, error) {
	if len(fps) == 0 || len(fps) > MaxLen {
		return nil, fmt.Errorf("%w: %d fingerprints, not 1 to %d", errContent, len(fps), MaxLen)
	}
	for i := 1; i < len(fps); i++ {
		if fps[i-1] >= fps[i] {
			return nil, fmt.Errorf("%w: %016x follows %016x", errContent, fps[i], fps[i-1])
		}
	}
	return appendEliasFano(nil, fps, 0), nil
}

// Positions returns a range of positions, from (inclusive) to to (exclusive), that contains all
// fingerprints from first to last. At both ends, the range may contain a few other fingerprints,
// which differ from first or last only in their low bits. A caller that needs few of many
// fingerprints passes the range to AppendNear, and calls At for the near positions. ok is false if
// the low bits are too few to distinguish fingerprints. The caller must then use AppendRange.
func (b *Block) Positions(first, last uint64) (from, to int, ok bool) {
	if b.width < minNearWidth {
		return 0, 0, false
	}
	r := b.eliasFanoRange(first, last)
	return r.from, r.to, true
}

// minNearWidth is the smallest width of low bits for which comparing them is useful.
const minNearWidth = 16

// Prefetch begins to load the low bits of these positions into the cache of the processor.
func (b *Block) Prefetch(from, to int) {
	if from < to {
		first, end := uint(from)*b.width>>3, uint(to)*b.width>>3
		prefetch.Bytes(unsafe.Pointer(&b.data[b.lows:b.end][first]), uintptr(end-first))
	}
}

// lowMask has the low bits set.
func (b *Block) lowMask() uint64 { return 1<<(b.width&63) - 1 }
