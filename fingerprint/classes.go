package fingerprint

import (
	_ "embed"
	"encoding/binary"
	"sync"
	"unicode/utf8"
)

// A class determines the effect of a character on the current token. Classes are
// frozen at Unicode 15.0, in classes.bin, because fingerprints are stored.
//
// Letters, digits and marks form tokens. In most scripts a token is a run of these
// characters. In scripts without spaces between words, each character and the marks
// after it form a token. These scripts are the ones with the line breaking classes ID
// and SA of UAX #14 (Han, kana, Bopomofo, Yi, Tangut, Nushu, Khitan; Thai, Lao, Khmer,
// Myanmar, the Tai scripts, Ahom), Javanese and Balinese, hieroglyphs and cuneiform.
// Hangul has spaces, and Tibetan has a mark after each syllable, so their tokens are
// runs. Digits always form runs.
type class uint8

const (
	separator class = iota
	// default ignorable (joiners, soft hyphen, variation selectors), tatweel, optional points
	ignorable
	letter          // a letter or digit that is its own normal form
	letterComposing // the same, but a mark after it may compose with it
	letterMaybe     // a conjoining jamo that may compose with the letter before it
	cased           // differs from its normal form in case or width only
	single          // a token of its own
	singleComposing // the same, but a mark after it may compose with it
	unknown         // not assigned in Unicode 15.0: a token of its own, never normalized
	slow            // needs the normalizer
	slowMark        // needs the normalizer, together with the character before it
	maybeMark       // a mark that may compose with the character before it
	markStarter     // a mark of combining class 0
	markComposing   // the same, but a mark after it may compose with it

	// The classes from markOrdered on are marks: twice the rank of the combining class,
	// plus 1 if the mark binds the next letter of a script without spaces (such as the
	// Khmer coeng).
	markOrdered class = 32
)

func (c class) isLetter() bool { return c == letter || c == letterComposing }

// combines reports whether a character may combine with the characters before it.
func (c class) combines() bool { return c >= slowMark || c == letterMaybe }

// conjoins reports whether a mark binds the next letter of a script without spaces.
func (c class) conjoins() bool { return c > markOrdered && c&1 == 1 }

// staysAsIs reports whether a mark, after a character of class previous in a token, is its own
// normal form.
func (c class) staysAsIs(previous class) bool {
	switch {
	case c == markStarter || c == markComposing:
		return true
	case c == maybeMark:
		return previous == letter || previous == single || previous == markStarter
	case c >= markOrdered:
		return previous == letter || previous == letterComposing || previous == single ||
			previous == singleComposing ||
			previous == markStarter || previous == markComposing ||
			markOrdered <= previous && previous <= c
	}
	return false
}

// The length of a text is measured in units, 12 per word. In scripts without spaces, each
// character counts some units. They are chosen so that the Universal Declaration of Human Rights
// is about as long as in English. A character counts 8 units in general, since Chinese has 1.5
// ideographs per English word, and 4 for kana. It counts 3 in the scripts of South-East Asia:
// Thai has 4.2 characters per English word, and Khmer 3.1.
const (
	wordUnits      = 12
	ideographUnits = 8
	kanaUnits      = 4
	clusterUnits   = 3
)

var pageUnits = func() (units [256]uint8) {
	for page := range units {
		units[page] = ideographUnits
	}
	units[0x30] = kanaUnits
	for _, page := range []int{0x0E, 0x10, 0x17, 0x19, 0x1A, 0x1B, 0xA9, 0xAA} {
		units[page] = clusterUnits
	}
	return units
}()

func singleUnits(r rune) int {
	if r > 0xffff {
		return ideographUnits
	}
	return int(pageUnits[r>>8&0xff])
}

const tableEnd = 0x20000

// classRuns lists runs of characters of one class, from U+0000 on. A run is its length as a
// uvarint, the class, and a uvarint that folds the case of each character: the number to add to it
// modulo 2^16.
//
//go:embed classes.bin
var classRuns string

// tables has classRuns as arrays for fast access (128 KiB and about 15 KiB).
type tables struct {
	class [tableEnd]class
	fold  [tableEnd >> 8]*[256]uint16 // the number to add modulo 2^16; nil means 0

	// twoByte has the folded form of each letter of two bytes. The low 16 bits are the one or
	// two bytes of the result, and the bits above are their number. The value is 0 if the
	// character is not a letter, or if its form needs the general code.
	twoByte [0x800]uint32
}

var loadTables = sync.OnceValue(func() *tables {
	t := new(tables)
	next := rune(0)
	for b := []byte(classRuns); len(b) > 0; {
		length, n := binary.Uvarint(b)
		c := class(b[n])
		add, m := binary.Uvarint(b[n+1:])
		b = b[n+1+m:]
		for range length {
			t.set(next, c, uint16(add))
			next++
		}
	}
	for r := rune(0x80); r < 0x800; r++ {
		if c := t.class[r]; c == letter || c == letterComposing || c == cased {
			if b := t.appendFolded(nil, r); len(b) <= 2 {
				t.twoByte[r] = uint32(len(b))<<16 | uint32(load(b, 0))
			}
		}
	}
	return t
})

func (t *tables) set(r rune, c class, fold uint16) {
	t.class[r] = c
	if fold == 0 {
		return
	}
	page := &t.fold[r>>8]
	if *page == nil {
		*page = new([256]uint16)
	}
	(*page)[r&0xff] = fold
}

// at returns the class of the character at i, the character, and its size in bytes.
func (t *tables) at(text []byte, i int) (class, rune, int) {
	if i+8 <= len(text) {
		switch x := binary.LittleEndian.Uint64(text[i:]); {
		case x&0x80 == 0:
			return t.class[x&0x7f], rune(x & 0x7f), 1
		case isTwoBytes(x):
			return t.class[twoBytes(x)], twoBytes(x), 2
		case isThreeBytes(x):
			return t.class[threeBytes(x)], threeBytes(x), 3
		}
	}
	r, size := utf8.DecodeRune(text[i:])
	return t.classOf(r), r, size
}

// The functions below test and decode the UTF-8 character in the low bytes of eight
// bytes of text. The tests also accept surrogates. The class of a surrogate is
// separator, which is right for the invalid bytes that encode one.

func isTwoBytes(x uint64) bool   { return x&0xC0E0 == 0x80C0 && x&0x1E != 0 }
func isThreeBytes(x uint64) bool { return x&0xC0C0F0 == 0x8080E0 && x&0x200F != 0 }

func twoBytes(x uint64) rune   { return rune((x&0x1F)<<6 | x>>8&0x3F) }
func threeBytes(x uint64) rune { return rune((x&0x0F)<<12 | (x>>8&0x3F)<<6 | x>>16&0x3F) }

// classAhead returns the class of a character of three bytes. For ASCII, which ends a run of such
// characters, it returns slow. For all others it returns ignorable, since they may belong to the
// character before them.
func (t *tables) classAhead(x uint64) class {
	switch {
	case isThreeBytes(x):
		return t.class[threeBytes(x)]
	case x&0x80 == 0:
		return slow
	}
	return ignorable
}

func (t *tables) classOf(r rune) class {
	if r < tableEnd {
		return t.class[r]
	}
	return classBeyond(r)
}

// classBeyond returns the class of a character of plane 2 or higher. Planes 2 and 3 have
// ideographs. The higher planes have no text, except for the tags and variation
// selectors of plane 14.
func classBeyond(r rune) class {
	switch {
	case r >= 0x40000 && r>>12 == 0xE0:
		return ignorable
	case r >= 0x40000 || r&0xfffe == 0xfffe:
		return separator
	case 0x2F800 <= r && r <= 0x2FA1D:
		return slow
	case assignedIdeograph(r):
		return single
	}
	return unknown
}

func assignedIdeograph(r rune) bool {
	return r <= 0x2A6DF || 0x2A700 <= r && r <= 0x2B739 || 0x2B740 <= r && r <= 0x2B81D ||
		0x2B820 <= r && r <= 0x2CEA1 || 0x2CEB0 <= r && r <= 0x2EBE0 ||
		0x30000 <= r && r <= 0x3134A || 0x31350 <= r && r <= 0x323AF
}

// foldCase returns the simple case folding of Unicode, except that it folds dotless i to
// i. Only sharp s has a longer folding: see appendFolded.
func (t *tables) foldCase(r rune) rune {
	if r < tableEnd {
		if page := t.fold[r>>8]; page != nil {
			return r&^0xffff | rune(uint16(r)+page[r&0xff])
		}
	}
	return r
}

// appendFolded appends the case folding of a character of class cased.
func (t *tables) appendFolded(dst []byte, r rune) []byte {
	if r == 'ß' || r == 'ẞ' {
		return append(dst, 's', 's')
	}
	return utf8.AppendRune(dst, t.foldCase(r))
}
