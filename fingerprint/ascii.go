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

// asciiBlock is the most that asciiTokens gives at a time.
const asciiBlock = 128

// asciiTokens hashes ASCII words of up to 7 bytes, in lower case. It stops when
// out is full, within 8 bytes of the end of the text, and at a token that is longer or
// has other characters; it gives the number of hashes and the place. All is in
// one loop without calls, so that the processor looks for the next word while it
// hashes this one.
func asciiTokens(out *[asciiBlock]uint64, text []byte, i int) (n, next int) {
	for i+8 <= len(text) && n < len(out) {
		x := binary.LittleEndian.Uint64(text[i:])
		word, lower := wordBytes(x)
		end := ^word & highBits
		if end == 0 || x&end&-end != 0 {
			break
		}
		before := (end - 1) &^ end // all bits before the mark of the first other byte
		size := bits.OnesCount64(before) >> 3
		h := prime5 + uint64(size)
		four, last := takeFour(h, lower), lower>>32
		if size&4 == 0 {
			four, last = h, lower
		}
		one := takeOne(four, last)
		two := takeOne(one, last>>8)
		three := takeOne(two, last>>16)
		h = four
		if size&3 > 0 {
			h = one
		}
		if size&3 > 1 {
			h = two
		}
		if size&3 > 2 {
			h = three
		}
		out[n] = mix(h)
		if size > 0 {
			n++
		}
		i += firstByte((word | x&highBits) &^ before)
	}
	return n, i
}

// longASCII hashes an ASCII word of 8 to 15 bytes at i, in lower case; size is 0
// if there is none.
func longASCII(text []byte, i int) (h uint64, size int) {
	if i+16 > len(text) {
		return 0, 0
	}
	word, first := wordBytes(binary.LittleEndian.Uint64(text[i:]))
	x := binary.LittleEndian.Uint64(text[i+8:])
	rest, lower := wordBytes(x)
	end := ^rest & highBits
	if word != highBits || end == 0 || x&end&-end != 0 {
		return 0, 0
	}
	size = firstByte(end)
	return hashRest(takeEight(prime5+8+uint64(size), first), lower, size), 8 + size
}

// UTF-8 characters at the low end of eight bytes of text. The tests are exact but
// for surrogates, which are separators in the class table, as are the bytes
// that they would be.

func isTwoBytes(x uint64) bool   { return x&0xC0E0 == 0x80C0 && x&0x1E != 0 }
func isThreeBytes(x uint64) bool { return x&0xC0C0F0 == 0x8080E0 && x&0x200F != 0 }

func twoBytes(x uint64) rune   { return rune((x&0x1F)<<6 | x>>8&0x3F) }
func threeBytes(x uint64) rune { return rune((x&0x0F)<<12 | (x>>8&0x3F)<<6 | x>>16&0x3F) }
