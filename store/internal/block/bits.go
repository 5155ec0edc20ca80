package block

import "encoding/binary"

// maxPacked is the width of the widest field that one 8-byte load covers at any bit
// offset: 64 bits minus the 7 that may belong to other fields.
const maxPacked = 57

// bitWriter appends bits, starting with the lowest bit of each byte.
type bitWriter struct {
	dst  []byte
	word uint64 // the bits that are not in dst yet
	n    uint   // their number, below 8 between calls
}

// write appends the low width bits of v, the lowest first. width must be at most 57, and v must
// have no other bits set.
func (w *bitWriter) write(v uint64, width uint) {
	w.word |= v << w.n
	w.n += width
	var eight [8]byte
	binary.LittleEndian.PutUint64(eight[:], w.word)
	whole := w.n / 8
	w.dst = append(w.dst, eight[:whole]...)
	w.n -= whole * 8
	w.word >>= whole * 8
}

// finish fills the last byte with zeros.
func (w *bitWriter) finish() []byte {
	if w.n > 0 {
		w.dst = append(w.dst, byte(w.word))
	}
	return w.dst
}

// packedSize returns the size of n fields of the given width, in bytes.
func packedSize(n int, width uint) int { return (n*int(width) + 7) / 8 }

// packedField returns field i of fields of the given width, 1 to 57 bits. The fields
// begin at byte 7 of src. The load ends at the end of the field, so it never reads
// after the last field.
func packedField(src []byte, i int, width uint) uint64 {
	end := uint(i+1)*width - 1 // the field's highest bit
	at := end >> 3
	word := binary.LittleEndian.Uint64(src[at : at+8 : at+8])
	return word << (^end & 7) >> ((64 - width) & 63)
}

const (
	everyByte = 0x0101010101010101
	everyTop  = 0x8080808080808080
)

// selectBit returns the position of the set bit of word that has exactly rank set bits
// below it. The bit must exist. The function has no branches, since the processor could
// not predict them (Vigna, "Broadword implementation of rank/select queries", 2008).
func selectBit(word uint64, rank uint) uint {
	sums := word - word>>1&0x5555555555555555
	sums = sums&0x3333333333333333 + sums>>2&0x3333333333333333
	sums = (sums + sums>>4) & 0x0f0f0f0f0f0f0f0f * everyByte // byte i: the bits set in bytes 0..i
	below := ((uint64(rank)*everyByte | everyTop) - sums) & everyTop >> 7
	place := uint(below * everyByte >> 56 * 8 & 63) // of the byte that holds the bit
	rank -= uint(sums << 8 >> place & 0xff)
	return place + uint(selectInByte[word>>place&0xff][rank&7])
}

// selectInByte[b][r] is the position of the bit of b that has r set bits below it.
var selectInByte = func() (table [256][8]uint8) {
	for b := range table {
		rank := 0
		for bit := range 8 {
			if b>>bit&1 != 0 {
				table[b][rank] = uint8(bit)
				rank++
			}
		}
	}
	return table
}()
