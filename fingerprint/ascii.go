package fingerprint

import (
	"encoding/binary"
	"math/bits"
)

// Eight ASCII bytes at a time: a byte of a mask is 0x80 for yes and 0 for no, the
// first byte of the text is the lowest.
const (
	everyByte = 0x0101010101010101
	highBits  = 0x80 * everyByte
)

// wordBytes marks the ASCII letters and digits of x, and gives x with its letters
// in lower case.
func wordBytes(x uint64) (word, lower uint64) {
	// With the high bit cleared no sum carries into the next byte.
	low := x &^ highBits
	folded := low | 0x20*everyByte
	letter := (folded + (0x80-'a')*everyByte) &^ (folded + (0x80-'z'-1)*everyByte)
	digit := (low + (0x80-'0')*everyByte) &^ (low + (0x80-'9'-1)*everyByte)
	letter &= highBits &^ x
	return letter | digit&highBits&^x, x | letter>>2
}

// wholeBytes makes a byte of ones of each byte that a mask marks.
func wholeBytes(mask uint64) uint64 { return mask<<1 - mask>>7 }

// notZero gives a bit for each byte of x, the first the lowest: whether it is not 0.
func notZero(x uint64) uint64 {
	mask := (x&^highBits + ^uint64(highBits) | x) & highBits
	return mask >> 7 * 0x0102040810204080 >> 56
}

// firstByte is the number of the first byte that a mask marks, 8 for none.
func firstByte(mask uint64) int { return bits.OnesCount64((mask-1)&^mask) >> 3 }

// load reads eight bytes of b from i on, zeros after its end.
func load(b []byte, i int) uint64 {
	if i+8 <= len(b) {
		return binary.LittleEndian.Uint64(b[i:])
	}
	var last [8]byte
	if i < len(b) {
		copy(last[:], b[i:])
	}
	return binary.LittleEndian.Uint64(last[:])
}

// asciiFolds is what each ASCII byte becomes: a letter or digit in lower case, or 0.
var asciiFolds = func() (folds [0x80]uint8) {
	for c := range folds {
		word, lower := wordBytes(uint64(c))
		folds[c] = uint8(lower & wholeBytes(word))
	}
	return folds
}()

// UTF-8 characters at the low end of eight bytes of text. The tests are exact but
// for surrogates, which are separators in the class table, as are the bytes
// that they would be.

func isTwoBytes(x uint64) bool   { return x&0xC0E0 == 0x80C0 && x&0x1E != 0 }
func isThreeBytes(x uint64) bool { return x&0xC0C0F0 == 0x8080E0 && x&0x200F != 0 }

func twoBytes(x uint64) rune   { return rune((x&0x1F)<<6 | x>>8&0x3F) }
func threeBytes(x uint64) rune { return rune((x&0x0F)<<12 | (x>>8&0x3F)<<6 | x>>16&0x3F) }
