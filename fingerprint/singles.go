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
	if t.each != nil || i+11 > len(t.text) || !isCJK(byte(x>>24)) || !isCJK(byte(x>>48)) || !isCJK(t.text[i+9]) {
		return false
	}
	next := binary.LittleEndian.Uint64(t.text[i+3:])
	return isThreeBytes(next) && runKinds[t.tables.class[threeBytes(next)]] != 0
}

// isCJK tells the first bytes of U+3000 to U+9FFF.
func isCJK(lead byte) bool { return 0xE3 <= lead && lead <= 0xE9 }

// A runKind says what may stand in such a run: a token, a separator, or 0 for what may not.
type runKind uint8

const (
	inRun runKind = 1 << iota
	passedOver
)

// runKinds is by class.
var runKinds = [256]runKind{single: inRun, singleComposing: inRun, separator: passedOver}

// hashSingles appends the hashes of a run of characters of three bytes that are tokens, some
// n at most, and passes over the separators in it. It stops before the first
// character that may be otherwise: a character is taken once the next one is known to be no mark.
func (t *tokenizer) hashSingles(dst []uint64, n int) []uint64 {
	n = max(n, 64) // singleHashes wants room for two
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
		if found, i = t.singleHashes(out, found, i); i == start {
			break
		}
	}
	t.pos, t.from = i, i
	return dst[:len(dst)+found]
}

// areHan reports whether the two characters of three bytes that x begins with are from
// U+4E00 to U+9FFF, which are all ideographs.
func areHan(x uint64) bool {
	const first, last = 0xE4B880, 0xE9BFBF
	inOrder := bits.ReverseBytes64(x)
	return inOrder>>40-first <= last-first && inOrder>>16&0xffffff-first <= last-first
}

// singleHashes puts the hashes of characters into out from found on, until it is full or a
// character has no three bytes or may be otherwise. It gives the places it came to.
func (t *tokenizer) singleHashes(out []uint64, found, i int) (nextFound, nextI int) {
	text, classes := t.text, &t.tables.class
	x := load(text, i)
	kind := runKinds[classes[threeBytes(x)]]
	if !isThreeBytes(x) || kind == 0 {
		return found, i
	}
	units := runUnits(x, kind) // those of x too
	for found+1 < len(out) && i+11 <= len(text) {
		// The next two at once, where they are what most are.
		next := binary.LittleEndian.Uint64(text[i+3:])
		second := next >> 24
		nextKind, secondKind, twoUnits := inRun, inRun, 2*ideographUnits
		two := next&0xC0C0F0C0C0F0 == 0x8080E08080E0
		if two && !areHan(next) {
			nextKind, secondKind = runKinds[classes[threeBytes(next)]], runKinds[classes[threeBytes(second)]]
			twoUnits = runUnits(next, nextKind) + runUnits(second, secondKind)
			two = nextKind != 0 && secondKind != 0 && next&0x200F != 0 && second&0x200F != 0
		}
		if two {
			out[found] = hash16(x&0xffffff, 0, 3)
			found += int(kind & inRun)
			out[found] = hash16(next&0xffffff, 0, 3)
			found += int(nextKind & inRun)
			units += twoUnits
			x, kind = second, secondKind
			i += 6
			continue
		}
		nextKind = runKinds[classes[threeBytes(next)]]
		if (!isThreeBytes(next) || nextKind == 0) && next&0x80 != 0 {
			break
		}
		out[found] = hash16(x&0xffffff, 0, 3)
		found += int(kind & inRun)
		i += 3
		if next&0x80 == 0 {
			t.units += units
			return found, i
		}
		x, kind = next, nextKind
		units += runUnits(x, kind)
	}
	t.units += units - runUnits(x, kind)
	return found, i
}

// runUnits are the units of a character of three bytes.
func runUnits(x uint64, kind runKind) int {
	return int(pageUnits[uint8(x<<4|x>>10&0x0f)] & uint8(-(kind & inRun)))
}
