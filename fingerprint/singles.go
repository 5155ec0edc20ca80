package fingerprint

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

// In Chinese and Japanese nearly every character is a token. A run of them needs none of the
// tokenizer's loops.

// singlesAhead reports whether such a run begins at i, where x was read and a token
// of three bytes stands.
func (t *tokenizer) singlesAhead(x uint64, i int) bool {
	if t.list != nil || t.hash != Folded || i+11 > len(t.text) || !isCJK(byte(x>>24)) || !isCJK(byte(x>>48)) || !isCJK(t.text[i+9]) {
		return false
	}
	next := binary.LittleEndian.Uint64(t.text[i+3:])
	return isThreeBytes(next) && singleRun[t.tables.class[threeBytes(next)]] != 0
}

// isCJK tells the first bytes of U+3000 to U+9FFF.
func isCJK(lead byte) bool { return 0xE3 <= lead && lead <= 0xE9 }

// singleRun says by class what may stand in such a run: 1 for a token, 2 for what is in none.
var singleRun = [256]uint8{single: 1, singleComposing: 1, separator: 2}

// hashSingles appends the hashes of a run of characters of three bytes that are tokens, some
// n at most, and passes over the separators in it. It stops before the first
// character that may be otherwise. That a character has no mark is known from the next
// one.
func (t *tokenizer) hashSingles(dst []uint64, n int) []uint64 {
	n = max(n, 64) // singleBytes wants room for two
	dst = slices.Grow(dst, n)
	out := dst[len(dst) : len(dst)+n]
	t.inSingles = false
	found, i := 0, t.pos
	for i < len(t.text) {
		if c := t.text[i]; c < 0x80 && asciiFolds[c] == 0 {
			i++
			continue
		}
		start := i
		if found, i = t.singleBytes(out, found, i); i == start {
			break
		}
	}
	t.pos = i
	kana := 0
	for k, x := range out[:found] {
		if x&0xFCFF == 0x80E3 { // U+3000 to U+30FF
			kana++
		}
		out[k] = hash16(x, 0, 3)
	}
	t.units += found*ideographUnits - kana*(ideographUnits-kanaUnits)
	return dst[:len(dst)+found]
}

// isHan tells the bytes of U+4E00 to U+9FFF, the first one the highest, from those of other characters of three.
func isHan(x uint64) bool { return x-0xE4B880 <= 0xE9BFBF-0xE4B880 }

// singleBytes puts the bytes of characters into out from found on, until it is full or a
// character has no three bytes or may be otherwise. It gives the places it came to.
func (t *tokenizer) singleBytes(out []uint64, found, i int) (nextFound, nextI int) {
	text, classes := t.text, &t.tables.class
	x := load(text, i)
	kind := singleRun[classes[threeBytes(x)]]
	if !isThreeBytes(x) || kind == 0 {
		return found, i
	}
	for found+1 < len(out) && i+11 <= len(text) {
		// The next two at once, where they are what most are.
		if two := binary.LittleEndian.Uint64(text[i+3:]); two&0xC0C0F0C0C0F0 == 0x8080E08080E0 {
			if swapped := bits.ReverseBytes64(two); isHan(swapped>>40) && isHan(swapped>>16&0xffffff) {
				out[found] = x & 0xffffff
				found += int(kind & 1)
				out[found] = two & 0xffffff
				found++
				x, kind = two>>24, 1
				i += 6
				continue
			}
			second := two >> 24
			kind1, kind2 := singleRun[classes[threeBytes(two)]], singleRun[classes[threeBytes(second)]]
			if kind1 != 0 && kind2 != 0 && two&0x200F != 0 && second&0x200F != 0 {
				out[found] = x & 0xffffff
				found += int(kind & 1)
				out[found] = two & 0xffffff
				found += int(kind1 & 1)
				x, kind = second, kind2
				i += 6
				continue
			}
		}
		next := binary.LittleEndian.Uint64(text[i+3:])
		nextKind := singleRun[classes[threeBytes(next)]]
		if (!isThreeBytes(next) || nextKind == 0) && next&0x80 != 0 {
			break
		}
		out[found] = x & 0xffffff
		found += int(kind & 1)
		i += 3
		if next&0x80 == 0 {
			break
		}
		x, kind = next, nextKind
	}
	return found, i
}
