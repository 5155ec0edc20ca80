package fingerprint

import "encoding/binary"

// scanHashes is scan for tokens of which only the xxhash64 is asked: the usual
// ones by ways of their own, the others by word.
func (t *tokenizer) scanHashes(dst []uint64, text []byte, i, limit int) ([]uint64, int) {
	for i < len(text) && len(dst) < limit {
		n := 0
		n, i = asciiTokens(&t.ascii, text, i)
		dst = append(dst, t.ascii[:n]...)
		t.units += n * wordUnits
		if n == len(t.ascii) || i >= len(text) {
			continue
		}
		if byteKinds[text[i]] == 0 {
			i++
			continue
		}
		if h, size := longASCII(text, i); size > 0 {
			dst = append(dst, h)
			t.units += wordUnits
			i += size
			continue
		}
		before := i
		if dst, i = t.twoByteTokens(dst, text, i, limit); i == before {
			dst, i = t.word(dst, text, i, false)
		}
		dst, i = t.beyondASCII(dst, text, i, limit)
	}
	return dst, i
}

// beyondASCII takes tokens that begin beyond ASCII, with no more than one ASCII
// separator between two of them.
func (t *tokenizer) beyondASCII(dst []uint64, text []byte, i, limit int) ([]uint64, int) {
	for i+1 < len(text) && len(dst) < limit {
		if byteKinds[text[i]] == 0 {
			i++
		}
		if text[i] >= 0xe0 {
			dst, i = t.ideographs(dst, text, i, limit)
		} else if text[i] >= 0x80 {
			dst, i = t.twoByteTokens(dst, text, i, limit)
		}
		if i >= len(text) || text[i] < 0x80 || len(dst) >= limit {
			break
		}
		dst, i = t.word(dst, text, i, false)
	}
	return dst, i
}

// ideographs takes a run of characters that are tokens of their own, each three
// bytes long and without marks, and the separators between them. It stops before
// the first that may be otherwise.
func (t *tokenizer) ideographs(dst []uint64, text []byte, i, limit int) ([]uint64, int) {
	classes, hashes := &t.tables.class, &t.tables.ideograph
	if i+8 > len(text) {
		return dst, i
	}
	x := binary.LittleEndian.Uint64(text[i:])
	if !isThreeBytes(x) {
		return dst, i
	}
	r := threeBytes(x)
	c := classes[r]
	units := 0
	for i+11 <= len(text) && len(dst) < limit && (c == single || c == singleComposing || c == separator) {
		x2 := binary.LittleEndian.Uint64(text[i+3:])
		r2, c2 := rune(x2&0x7f), separator
		if x2&0x80 != 0 {
			if !isThreeBytes(x2) {
				break
			}
			r2 = threeBytes(x2)
			c2 = classes[r2]
			if c2 == ignorable || c2 >= slowMark {
				break
			}
		}
		if c != separator {
			if k := uint32(r - ideographStart); k < uint32(len(hashes)) {
				dst = append(dst, hashes[k])
			} else {
				dst = append(dst, hash3(x))
			}
			units += singleUnits(r)
		}
		i += 3
		if r2 < 0x80 {
			break
		}
		x, r, c = x2, r2, c2
	}
	t.units += units
	return dst, i
}
