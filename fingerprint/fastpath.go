package fingerprint

import (
	"encoding/binary"
	"unicode/utf8"
)

// fastPath brings characters from i on into normal form and appends them to out at o,
// a byte of 0 for each separator. It takes those that need no more than a look at
// the tables, and stops before another, or not far after end. It gives the places it came to in text
// and out, which must have fastPathRoom for end-i bytes.
func (t *tokenizer) fastPath(out []byte, o, i, end int) (nextI, nextO int) {
	text, letters := t.text, &t.tables.twoByte
	out = out[:o+fastPathRoom(end-i)]
	lastPair := min(end, len(text)-1)
	for i < end {
		if i+8 > len(text) {
			if b := text[i]; b < 0x80 {
				out[o] = asciiFolds[b]
				o++
				i++
				continue
			}
		} else {
			x := binary.LittleEndian.Uint64(text[i:])
			word, lower := wordBytes(x)
			binary.LittleEndian.PutUint64(out[o:], lower&wholeBytes(word))
			n := firstByte(x & highBits)
			i += n
			o += n
			if n == 8 || i >= end {
				continue
			}
		}
		start := i
		for i < lastPair {
			pair := binary.LittleEndian.Uint16(text[i:])
			if pair&0xC0E0 != 0x80C0 {
				break
			}
			v := letters[pair&0x1f<<6|pair>>8&0x3f]
			if v == slowTwoByte {
				return i, o
			}
			binary.LittleEndian.PutUint16(out[o:], uint16(v))
			o += int(v >> 16)
			i += 2
		}
		if i >= start+6 { // three such letters: many more, as a rule
			i, o = t.twoByteRun(out, o, i, end)
		}
		if i > start {
			continue
		}
		if i, o = t.threeByteRun(out, o, i, end); i > start {
			continue
		}
		break
	}
	return i, o
}

// fastPathRoom is what fastPath writes at most for so many bytes of text, and what the
// loops after it read beyond. A single takes four bytes for three, and may need a
// zero before it.
func fastPathRoom(n int) int { return 2*n + 128 }

// threeByteRun is fastPath for characters of three bytes.
func (t *tokenizer) threeByteRun(out []byte, o, i, end int) (nextI, nextO int) {
	text, classes := t.text, &t.tables.class
	prev := slow // not known
	for i < end && i+11 <= len(text) {
		x := binary.LittleEndian.Uint64(text[i:])
		if !isThreeBytes(x) {
			break
		}
		r := threeBytes(x)
		c := classes[r]
		switch {
		case c == single || c == singleComposing:
			if out[o-1] != 0 {
				out[o] = 0
				o++
			}
			if t.singlesAhead(x, i) {
				t.inSingles = true
				return i, o
			}
			start := i
			if i, o = t.singles(out, o, i, end); i == start {
				return i, o
			}
			prev = slow
			continue
		case c == letter || c == letterComposing:
			binary.LittleEndian.PutUint32(out[o:], uint32(x))
			o += 3
		case c == separator:
			out[o] = 0
			o++
		case c == ignorable:
		case c == cased && r != 'ẞ':
			o += utf8.EncodeRune(out[o:], t.tables.foldCase(r))
		case out[o-1] != 0 && plainMark(prev, c):
			binary.LittleEndian.PutUint32(out[o:], uint32(x))
			o += 3
		default:
			return i, o
		}
		prev = c
		i += 3
	}
	return i, o
}

// plainMark reports whether a mark stays as it is after a character of class prev in
// a token.
func plainMark(prev, c class) bool {
	switch {
	case c == markStarter || c == markComposing:
		return true
	case c == maybeMark:
		return prev == letter || prev == single || prev == markStarter
	case c >= markOrdered:
		return prev == letter || prev == letterComposing || prev == single || prev == singleComposing ||
			prev == markStarter || prev == markComposing || markOrdered <= prev && prev <= c
	}
	return false
}

// singles is fastPath for a run of characters of three bytes that are tokens of their own,
// and the marks on them; the first is one. It stops before one that may be
// otherwise.
func (t *tokenizer) singles(out []byte, o, i, end int) (nextI, nextO int) {
	text, classes := t.text, &t.tables.class
	x := binary.LittleEndian.Uint64(text[i:])
	for c := single; i < end && (c == single || c == singleComposing); {
		start, at := i, o
		r := threeBytes(x)
		c = classes[r]
		for {
			binary.LittleEndian.PutUint32(out[o:], uint32(x))
			o += 3
			if i += 3; i+8 > len(text) || i > end+64 { // so many marks have no room
				return start, at
			}
			x = binary.LittleEndian.Uint64(text[i:])
			next := separator // any ASCII
			if x&0x80 != 0 {
				if !isThreeBytes(x) {
					return start, at
				}
				next = classes[threeBytes(x)]
			}
			prev := c
			c = next
			if c < slowMark && c != ignorable {
				break
			}
			if c.conjoins() || !plainMark(prev, c) {
				return start, at
			}
		}
		out[o] = 0
		o++
		t.units += int(pageUnits[r>>8&0xff]) - wordUnits
	}
	return i, o
}
