package fingerprint

import "encoding/binary"

// What twoByte says of a character besides its folding.
const (
	notSimple       = 0 // takes tokenizer.word
	simpleSeparator = 1
	simpleIgnorable = 2
)

// fillTwoByte lists the characters of two bytes that are all that twoByteTokens has
// to know: separators, and letters with the two bytes of their folding.
func (t *tables) fillTwoByte() {
	for r := rune(0x80); r < 0x800; r++ {
		folded := r
		switch t.class[r] {
		case separator:
			t.twoByte[r] = simpleSeparator
			continue
		case ignorable:
			t.twoByte[r] = simpleIgnorable
			continue
		case cased:
			if folded = t.foldCase(r); r == 'ß' || folded >= 0x800 {
				continue
			}
			if folded < 0x80 {
				t.twoByte[r] = uint16(folded)
				continue
			}
		case letter, letterComposing:
		default:
			continue
		}
		t.twoByte[r] = uint16(0x80C0 | folded>>6 | folded&0x3f<<8)
	}
}

// twoByteTokens takes tokens of ASCII and of letters of two bytes, up to 30 bytes
// long, as most are in Latin, Greek, Cyrillic, Hebrew and Arabic script, and the
// separators behind them. It goes on while tokens begin beyond ASCII, and stops
// before the first that may be otherwise. All is in one loop without calls, so
// that a token stays in registers.
func (t *tokenizer) twoByteTokens(dst []uint64, text []byte, i, limit int) ([]uint64, int) {
	letters := &t.tables.twoByte
	for first := true; i < len(text) && len(dst) < limit && (first || text[i] >= 0x80); first = false {
		var words [4]uint64
		word, n, start := uint64(0), uint(0), i
		for {
			if i+2 > len(text) || n >= maxTwoByteToken {
				return dst, start
			}
			v, size := uint64(0), uint(1)
			if b := text[i]; b < 0x80 {
				kind := byteKinds[b]
				i++
				if kind == 0 {
					break
				}
				v = uint64(b | kind&asciiUpper<<4)
			} else {
				pair := binary.LittleEndian.Uint16(text[i:])
				if pair&0xC0E0 != 0x80C0 {
					c := t.tables.threeByteClass(text, i)
					if c > ignorable {
						return dst, start
					}
					i += 3
					if c == separator {
						break
					}
					continue
				}
				i += 2
				if v = uint64(letters[pair&0x1f<<6|pair>>8&0x3f]); v < 0x80 {
					if v == notSimple {
						return dst, start
					}
					if v == simpleSeparator {
						break
					}
					if v == simpleIgnorable {
						continue
					}
				} else {
					size = 2
				}
			}
			at := n & 7 * 8
			word |= v << at
			if at+8*size >= 64 {
				words[n>>3&3] = word
				word = v >> (64 - at)
			}
			n += size
		}
		if n == 0 {
			continue
		}
		h := prime5 + uint64(n)
		for k := range n >> 3 {
			h = takeEight(h, words[k&3])
		}
		dst = append(dst, hashRest(h, word, int(n&7)))
		t.units += wordUnits
	}
	return dst, i
}

// maxTwoByteToken is what words and hashToken's short way have room for.
const maxTwoByteToken = 30

// threeByteClass is the class of the character at i, if it has three bytes and is
// well before the end of the text, or else slow.
func (t *tables) threeByteClass(text []byte, i int) class {
	if i+8 > len(text) {
		return slow
	}
	x := binary.LittleEndian.Uint64(text[i:])
	if !isThreeBytes(x) {
		return slow
	}
	return t.class[threeBytes(x)]
}
