package block

import (
	"errors"
	"fmt"
)

// Codec says how a block holds its fingerprints.
type Codec byte

const (
	// Huffman is the code of the paper's section 3.2: each fingerprint as what
	// differs from the one before. Read from the beginning of the block only.
	Huffman Codec = 1

	// EliasFano packs the low bits at a fixed width, and counts the rest in
	// unary. Read at any place of the block.
	EliasFano Codec = 2

	// DefaultCodec is the one that is faster to probe and, for scattered
	// fingerprints, smaller. Blocks of 1024 bytes at the density of 100 million
	// random fingerprints, in cache, with 2 and with 140 candidates a probe:
	// 52 and 226 ns, against 624 and 1076 ns of the Huffman code; 39.8 against
	// 41.2 bits a fingerprint, 1.02 and 1.06 times the entropy. Where clusters are
	// many, the Huffman code is up to 8 % smaller.
	//
	//	go test -run '^$' -bench 'BlockProbe|BlockSize' -benchtime 60ms ./store
	DefaultCodec = EliasFano
)

// withPostings is set in the codec byte of a block that has postings.
const withPostings = 0x80

// Block reads a packed run of consecutive fingerprints of one table. It refers to
// the bytes it was opened over, holds no other memory, and may be used from
// several goroutines at once as long as these bytes do not change.
//
// Bytes that are not a block, or a broken one, may give wrong fingerprints but
// never a panic; Verify finds out.
type Block struct {
	data []byte
	code *HuffmanCode
	n    int
	end  int // of the fingerprints in data; the postings are behind

	// Elias-Fano.
	width      uint   // of the low bits
	bucket     uint64 // of the first fingerprint
	zeros      uint64 // buckets from there to that of the last
	high, lows int    // the unary part; 7 bytes before the low bits
}

// Open makes b the block in data. code is the table's; it may be nil if the
// table has no Huffman blocks. It allocates nothing and takes some nanoseconds.
func (b *Block) Open(data []byte, code *HuffmanCode) error {
	if len(data) == 0 {
		return fmt.Errorf("%w: empty block", ErrCorrupt)
	}
	b.data, b.code = data, nil
	var err error
	switch Codec(data[0] &^ withPostings) {
	case EliasFano:
		err = b.openEliasFano()
	case Huffman:
		b.code = code
		err = b.openHuffman()
	default:
		err = fmt.Errorf("%w: block of unknown codec %#02x", ErrCorrupt, data[0])
	}
	if err == nil && b.end != len(data) && !b.HasPostings() {
		err = fmt.Errorf("%w: block has %d bytes, its fingerprints end at %d", ErrCorrupt, len(data), b.end)
	}
	return err
}

func (b *Block) HasPostings() bool { return b.data[0]&withPostings != 0 }

// Len returns the number of fingerprints, at least 1.
func (b *Block) Len() int { return b.n }

// First returns the smallest fingerprint.
func (b *Block) First() uint64 { return b.At(0) }

// Last returns the largest fingerprint, under which the block is stored. In a
// Huffman block it takes decoding everything.
func (b *Block) Last() uint64 {
	if b.code == nil {
		return b.eliasFanoLast()
	}
	return b.At(b.n - 1)
}

// At returns the fingerprint at position i, 0 to Len()-1. In a Huffman block it
// takes decoding all before it.
func (b *Block) At(i int) uint64 {
	if b.code == nil {
		return b.eliasFanoAt(i)
	}
	r := b.huffmanReader()
	for ; i > 0 && r.next(); i-- {
	}
	return r.fp
}

// AppendRange appends the fingerprints in first..last, both included, in
// ascending order, and returns the position of the first of them in the block
// (without meaning if there are none). In a Huffman block it takes decoding all
// that is before them.
func (b *Block) AppendRange(dst []uint64, first, last uint64) (fps []uint64, at int) {
	if b.code != nil {
		return b.appendHuffmanRange(dst, first, last)
	}
	r := b.eliasFanoRange(first, last)
	b.trim(&r, first, last)
	return b.appendPositions(dst, r), r.from
}

// AppendTo appends all fingerprints in ascending order.
func (b *Block) AppendTo(dst []uint64) []uint64 {
	if b.code != nil {
		dst, _ = b.appendHuffmanRange(dst, 0, ^uint64(0))
		return dst
	}
	return b.appendPositions(dst, positions{to: b.n})
}

// Verify decodes the whole block and reports the first thing in it that does not
// follow the format.
func (b *Block) Verify() error {
	if b.code == nil && (b.bucket+b.zeros)>>(64-b.width) != 0 {
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

var errNoCode = errors.New("no code for a Huffman block")

var errContent = errors.New("fingerprints do not make a block")

// Append appends a block of these fingerprints, 1 to 32000 of them and
// strictly ascending, without postings. code is needed for Huffman only.
func Append(dst []byte, codec Codec, code *HuffmanCode, fps []uint64) ([]byte, error) {
	if len(fps) == 0 || len(fps) > MaxLen {
		return dst, fmt.Errorf("%w: %d of them, not 1 to %d", errContent, len(fps), MaxLen)
	}
	for i := 1; i < len(fps); i++ {
		if fps[i-1] >= fps[i] {
			return dst, fmt.Errorf("%w: %016x follows %016x", errContent, fps[i], fps[i-1])
		}
	}
	return appendFingerprints(dst, codec, code, fps, 0)
}

func appendFingerprints(dst []byte, codec Codec, code *HuffmanCode, fps []uint64, flags byte) ([]byte, error) {
	switch {
	case codec == EliasFano:
		return appendEliasFano(dst, fps, flags), nil
	case codec == Huffman && code != nil:
		return appendHuffman(dst, code, fps, flags)
	case codec == Huffman:
		return dst, errNoCode
	}
	return dst, fmt.Errorf("unknown block codec %d", codec)
}

// Lows are the low bits of the fingerprints of a block, each at its position:
// what can be had of a fingerprint with one load. A caller that wants few of many
// fingerprints looks at these first and asks Block.At for those that may be wanted.
type Lows struct {
	bytes []byte // 7 before the first field
	width uint
}

// Lows returns the low bits, and positions, from the one at from to the one before
// to, among which are all of the fingerprints in first..last. There may be a few
// others at both ends, that differ from first or last in their low bits only: who
// compares anyway need not pay for finding the exact ends. ok is false if the codec
// has no low bits, or too few to tell fingerprints apart. Then AppendRange is the way.
func (b *Block) Lows(first, last uint64) (lows Lows, from, to int, ok bool) {
	if b.code != nil || b.width < minTellingLows {
		return Lows{}, 0, 0, false
	}
	r := b.eliasFanoRange(first, last)
	return Lows{b.data[b.lows:b.end], b.width}, r.from, r.to, true
}

// minTellingLows is the width from which on low bits are worth a look of their own.
const minTellingLows = 16

// Mask has the bits set that At returns.
func (l Lows) Mask() uint64 { return 1<<(l.width&63) - 1 }

// At returns the low bits of the fingerprint at a position, its others 0.
func (l Lows) At(i int) uint64 { return packedField(l.bytes, i, l.width) }
