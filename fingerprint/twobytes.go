package fingerprint

// A twoByte says what a character of two bytes becomes: its low 16 bits are what to
// write, the others how many bytes of them count. Separators become one byte of 0,
// what is ignorable none.
type twoByte uint32

// slowTwoByte is for characters that take tokenizer.word.
const slowTwoByte twoByte = 1 << 31

// asciiTwoByte is where ASCII stands in tables.twoByte, behind the characters that have two
// bytes, for text that has both.
const asciiTwoByte = 0x800

// fillTwoByte lists the characters of two bytes that are all that tokenizer.fastPath has
// to know: separators, and letters with their folding.
func (t *tables) fillTwoByte() {
	for b, folded := range asciiFolds {
		t.twoByte[asciiTwoByte+b] = 1<<16 | twoByte(folded)
	}
	for r := range rune(asciiTwoByte) {
		t.twoByte[r] = slowTwoByte
		if r < 0x80 {
			continue
		}
		folded := r
		switch t.class[r] {
		case separator:
			t.twoByte[r] = 1 << 16
			continue
		case ignorable:
			t.twoByte[r] = 0
			continue
		case cased:
			if r == 'ß' {
				t.twoByte[r] = 2<<16 | 's'<<8 | 's'
				continue
			}
			if folded = t.foldCase(r); folded >= 0x800 {
				continue
			}
			if folded < 0x80 {
				t.twoByte[r] = 1<<16 | twoByte(folded)
				continue
			}
		case letter, letterComposing:
		default:
			continue
		}
		t.twoByte[r] = 2<<16 | 0x80C0 | twoByte(folded>>6|folded&0x3f<<8)
	}
}
