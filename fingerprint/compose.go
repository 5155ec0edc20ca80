package fingerprint

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"strings"
	"unicode/utf8"
)

// Letters with marks as characters of their own, letters with two marks only one of
// which composes, and Hangul in single jamo make texts that normalisation changes
// nearly everywhere. The last character of the normal form so far and the next one of
// the text mostly suffice to know what they become together, so the normaliser is asked
// once for each such pair.
//
// That is right because the beginning of a text may be replaced by its own normal
// form, and the whole has the same normal form. There is one exception, U+0345, a mark
// whose folding is a letter.

// composition says what a character becomes after another.
type composition struct {
	key    uint64 // the first in UTF-8, the second as a number from bit 32 on
	normal uint64 // see packNormal; 0 if more must be known
}

const compositionSlots = 1024 // 16 KiB

// packNormal says to take bytes off the normal form and then append some.
func packNormal(off int, text []byte) uint64 {
	return load(text, 0) | uint64(off)<<48 | uint64(len(text))<<56
}

const maxPacked = 6

// other is simple for one character that the loops do not take. It stays at i if more must
// be known than the characters next to it.
func (t *tokenizer) other(out []byte, o, i int) (nextI, nextO int) {
	c, r, size := t.tables.at(t.text, i)
	first := uint32(0)
	switch {
	case c == separator:
		out[o] = 0
		return i + size, o + 1
	case c == ignorable:
		return i + size, o
	case c == letter || c == letterComposing:
		return i + size, o + utf8.EncodeRune(out[o:], r)
	case c == cased || c == slow:
		if hasIotaSubscript(r) && t.markAt(i+size) {
			return i, o
		}
	case c >= slowMark || c == letterMaybe:
		if first = lastCharacter(out, o); first == 0 {
			return i, o
		}
	default:
		return i, o
	}
	normal := t.compose(first, r)
	if normal == 0 {
		return i, o
	}
	o -= int(normal >> 48 & 0xff)
	binary.LittleEndian.PutUint64(out[o:], normal)
	return i + size, o + int(normal>>56)
}

// hasIotaSubscript tells the Greek letters that decompose to one and U+0345, which goes behind
// all other marks.
func hasIotaSubscript(r rune) bool { return 0x1F80 <= r && r <= 0x1FFF }

// markAt reports whether a mark or something ignorable stands at i.
func (t *tokenizer) markAt(i int) bool {
	if i == len(t.text) {
		return false
	}
	c, _, _ := t.tables.at(t.text, i)
	return c >= slowMark || c == ignorable
}

// lastCharacter gives the UTF-8 of the character before o, 0 if no token has one there.
func lastCharacter(out []byte, o int) uint32 {
	if o < 4 {
		return 0
	}
	last := binary.LittleEndian.Uint32(out[o-4:])
	begins := ^(last &^ (last << 1)) & (highBits & 0xffffffff)
	return last >> (24 - bits.LeadingZeros32(begins))
}

// compose is composition with a memory.
func (t *tokenizer) compose(first uint32, second rune) uint64 {
	if t.compositions == nil {
		t.compositions = make([]composition, compositionSlots) // many texts never come here
	}
	key := uint64(first) | uint64(second)<<32
	c := &t.compositions[key*prime1>>32%compositionSlots]
	if c.key != key {
		*c = composition{key, t.composition(first, second)}
	}
	return c.normal
}

// composition says what second becomes after first, the last character of a normal form or 0
// for any.
func (t *tokenizer) composition(first uint32, second rune) uint64 {
	pair := binary.LittleEndian.AppendUint32(t.pair[:0], first)[:(bits.Len32(first)+7)/8]
	before, c := separator, t.tables.classOf(second)
	if first != 0 {
		r, _ := utf8.DecodeRune(pair)
		before = t.tables.classOf(r)
	}
	off := len(pair)
	pair = utf8.AppendRune(pair, second)
	t.pair = pair
	if first != 0 && c != letterMaybe && plainMark(before, c) {
		return packNormal(0, pair[off:])
	}
	if !composable(before, c, second) {
		return 0
	}
	normal, growth := t.normal.normalize(t.tables, pair), 2*(len(pair)-off)
	if !t.tables.inToken(normal, first != 0) {
		return 0
	}
	if rest, ok := bytes.CutPrefix(normal, pair[:off]); ok && len(rest) > 0 {
		off, normal = 0, rest
	}
	if len(normal) > maxPacked || len(normal)-off > growth {
		return 0
	}
	return packNormal(off, normal)
}

// composable reports whether the normaliser may be asked about two characters alone. A dot
// above goes after an i, which may stand before other marks.
func composable(before, c class, second rune) bool {
	switch before {
	case separator:
		return c == cased || c == slow
	case letter, letterComposing:
		return c == letterMaybe || c == maybeMark || c == slowMark && !strings.ContainsRune("\u0345\u0E4D\u0ECD", second)
	case markStarter, markComposing:
		return c == maybeMark
	}
	return false
}

// inToken reports whether normal is letters with marks, no tokens by themselves among them;
// within a token it may begin with a mark.
func (t *tables) inToken(normal []byte, within bool) bool {
	for i, r := range string(normal) {
		if c := t.classOf(r); c != letter && c != letterComposing && (i == 0 && !within || c < slowMark) {
			return false
		}
	}
	return len(normal) > 0
}
