package fingerprint

import (
	"bytes"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// normalizer brings a part of a text into normal form: compatibility
// decomposition, case folding, removal of what is ignorable, compatibility
// composition. That is NFKC_Casefold of the Unicode standard (section 3.13,
// D147), with these changes:
//
//   - All of i, I, dotless i and dotted I become i, since Turkish texts in upper
//     and lower case could not meet otherwise.
//   - Tatweel is ignorable, and so are Hebrew points and accents, and Arabic vowel
//     signs and marks of recitation: most texts leave them out, and one text may
//     have them here and not there.
//   - Thai and Lao sara am stay one character, as they are typed.
//
// All other diacritics stay: they tell words apart in most languages that have them.
//
// Unicode never changes the normal form of assigned characters, so newer tables
// in x/text give the same result; characters that are not assigned in Unicode
// 15.0 must be kept away from it.
type normalizer struct {
	iter                         norm.Iter // unlike norm.Form.Append it allocates nothing
	decomposed, folded, composed []byte
	cache                        []cachedForm // by the hash of the sequence
}

// cachedForm is the normal form of a short sequence. A text has the same few again and again.
type cachedForm struct {
	sequence [2]uint64
	size     uint8
	normal   [cachedSize]byte
}

const (
	cacheSize  = 1024
	cachedSize = 64
)

// form gives the normal form of the combining sequence text[start:end], valid until the next
// call.
func (n *normalizer) form(t *tables, text []byte, start, end int) []byte {
	size := end - start
	if size > 16 {
		return n.normalize(t, text[start:end])
	}
	if n.cache == nil {
		n.cache = make([]cachedForm, cacheSize) // most texts never come here
	}
	mask := &firstBytes[size]
	key := [2]uint64{load(text, start) & mask[0], load(text, start+8) & mask[1]} // a sequence has no byte of 0
	c := &n.cache[hash16(key[0], key[1], size)%cacheSize]
	if c.sequence != key {
		normal := n.normalize(t, text[start:end])
		if len(normal) > cachedSize {
			return normal
		}
		c.sequence, c.size = key, uint8(copy(c.normal[:], normal))
	}
	return c.normal[:c.size]
}

// sequenceEnd gives where the combining sequence ends that begins at i: a character, and those
// after it that combine or are ignorable.
func (t *tables) sequenceEnd(text []byte, i int) int {
	_, last, size := t.at(text, i)
	for i += size; i < len(text); i += size {
		var c class
		var r rune
		if c, r, size = t.at(text, i); c == ignorable {
			continue
		}
		if !c.combines() && !isSaraAm(last, r) {
			break
		}
		last = r
	}
	return i
}

// normalize gives the normal form of text, valid until the next call.
func (n *normalizer) normalize(t *tables, text []byte) []byte {
	n.decomposed = n.appendForm(n.decomposed[:0], norm.NFKD, text)
	n.folded = t.appendStripped(n.folded[:0], n.decomposed)
	n.composed = n.appendForm(n.composed[:0], norm.NFKC, n.folded)
	normal := n.composed
	for _, r := range afterwards {
		if bytes.Contains(normal, r[0]) { // hardly ever
			normal = bytes.ReplaceAll(normal, r[0], r[1])
		}
	}
	return normal
}

// afterwards is what is replaced in composed text.
var afterwards = [][2][]byte{
	{[]byte("\u0E4D\u0E32"), []byte("\u0E33")}, // sara am, which nothing else decomposes into
	{[]byte("\u0ECD\u0EB2"), []byte("\u0EB3")},
	{[]byte("\u034F"), nil}, // which package norm puts after 30 marks
}

// sureIter is the most bytes of which an Iter is sure to be right: from some 30 marks on it
// miscounts those that letters decompose into.
const sureIter = 29

func (n *normalizer) appendForm(dst []byte, form norm.Form, text []byte) []byte {
	if len(text) > sureIter {
		return form.Append(dst, text...)
	}
	n.iter.Init(form, text)
	for !n.iter.Done() {
		dst = append(dst, n.iter.Next()...)
	}
	return dst
}

// appendStripped folds decomposed text and drops what is ignorable, and the dot
// above an i.
func (t *tables) appendStripped(dst, decomposed []byte) []byte {
	afterI := false // only marks since an i
	for len(decomposed) > 0 {
		r, size := utf8.DecodeRune(decomposed)
		decomposed = decomposed[size:]
		r = t.foldCase(r)
		switch c := t.classOf(r); {
		case c == ignorable:
		case r == 'ß':
			dst = append(dst, 's', 's')
			afterI = false
		case r == '\u0307' && afterI:
		default:
			dst = utf8.AppendRune(dst, r)
			afterI = r == 'i' || afterI && c >= slowMark
		}
	}
	return dst
}

// isSaraAm reports whether two characters become one afterwards.
func isSaraAm(first, second rune) bool {
	return (second == 0x0E32 || second == 0x0EB2) && first == second+0x1B
}
