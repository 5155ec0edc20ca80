package block

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
)

// Huffman blocks: section 3.2 of Manku, Jain and Das Sarma, "Detecting
// Near-Duplicates for Web Crawling". The first fingerprint is whole; each next one
// is the codeword of the position h of the highest bit in which it differs from
// the one before, then its h bits to the right of it. (Bit h itself is 1, as the
// fingerprints ascend.) A probe decodes the block from its beginning.
//
// The whole fingerprint stands behind the stream, so that a reader may load 8
// bytes at any bit of the stream.
const huffmanHeader = 1 + 2 + 2

func huffmanSize(streamBits int) int { return huffmanHeader + (streamBits+7)/8 + 8 }

// stepBits returns the bits of next in the stream behind previous.
func (c *HuffmanCode) stepBits(previous, next uint64) int {
	h := bits.Len64(previous^next) - 1
	return int(c.lengths[h]) + h
}

// appendHuffman appends the block's fingerprints: at least one, strictly ascending.
func appendHuffman(dst []byte, code *HuffmanCode, fps []uint64, flags byte) ([]byte, error) {
	dst = append(dst, byte(Huffman)|flags)
	dst = binary.LittleEndian.AppendUint16(dst, uint16(len(fps)))
	size := len(dst)
	dst = append(dst, 0, 0)
	w := bitWriter{dst: dst}
	for i, fp := range fps[1:] {
		h := bits.Len64(fps[i]^fp) - 1
		w.write(uint64(code.codewords[h]), uint(code.lengths[h]))
		rest := fp & (1<<h - 1)
		if h > 32 {
			w.write(rest&(1<<32-1), 32)
			w.write(rest>>32, uint(h-32))
		} else {
			w.write(rest, uint(h))
		}
	}
	dst = w.finish()
	stream := len(dst) - size - 2
	if stream > math.MaxUint16 {
		return dst, fmt.Errorf("%w: %d of them take %d bytes, not up to %d", errContent, len(fps), stream, math.MaxUint16)
	}
	binary.LittleEndian.PutUint16(dst[size:], uint16(stream))
	return binary.LittleEndian.AppendUint64(dst, fps[0]), nil
}

// openHuffman checks the lengths; the decoder checks each step against the end
// of the stream.
func (b *Block) openHuffman() error {
	if b.code == nil {
		return fmt.Errorf("%w: Huffman block in a table that has no code", ErrCorrupt)
	}
	if len(b.data) < huffmanHeader+8 {
		return fmt.Errorf("%w: block of %d bytes is too short", ErrCorrupt, len(b.data))
	}
	b.n = int(binary.LittleEndian.Uint16(b.data[1:]))
	b.end = huffmanHeader + int(binary.LittleEndian.Uint16(b.data[3:])) + 8
	if b.n == 0 || b.end > len(b.data) {
		return fmt.Errorf("%w: block has %d bytes, its %d fingerprints take %d", ErrCorrupt, len(b.data), b.n, b.end)
	}
	return nil
}

// huffmanReader decodes a block from its beginning.
type huffmanReader struct {
	stream []byte // and the 8 bytes behind it
	decode *[1 << maxCodeLength]uint16
	bit    uint
	fp     uint64 // the last one decoded
}

func (b *Block) huffmanReader() huffmanReader {
	stream := b.data[huffmanHeader:b.end]
	return huffmanReader{
		stream: stream,
		decode: &b.code.decode,
		fp:     binary.LittleEndian.Uint64(stream[len(stream)-8:]),
	}
}

// next decodes the fingerprint after fp, and reports whether the stream has one.
func (r *huffmanReader) next() bool {
	word := binary.LittleEndian.Uint64(r.stream[r.bit>>3:]) >> (r.bit & 7)
	entry := r.decode[word%(1<<maxCodeLength)]
	length, h := uint(entry&15), uint(entry>>4&63)
	rest := r.bit + length
	r.bit = rest + h
	if r.bit > uint(len(r.stream)-8)*8 {
		return false
	}
	if length+h <= maxPacked {
		word >>= length
	} else {
		word = binary.LittleEndian.Uint64(r.stream[rest>>3:]) >> (rest & 7) & (1<<32 - 1)
		rest += 32
		word |= binary.LittleEndian.Uint64(r.stream[rest>>3:]) >> (rest & 7) << 32
	}
	one := uint64(1) << h
	r.fp = r.fp&^(one|(one-1)) | one | word&(one-1)
	return true
}

// appendHuffmanRange decodes the fingerprints in first..last, and returns the
// position of the first of them.
func (b *Block) appendHuffmanRange(dst []uint64, first, last uint64) (fps []uint64, at int) {
	r := b.huffmanReader()
	i := 0
	for r.fp < first {
		if i++; i >= b.n || !r.next() {
			return dst, 0
		}
	}
	at = i
	for r.fp <= last {
		dst = append(dst, r.fp)
		if i++; i >= b.n || !r.next() {
			break
		}
	}
	return dst, at
}
