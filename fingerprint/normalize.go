package fingerprint

import (
	"bytes"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// normalizer computes the normal form of a part of a text: compatibility
// decomposition, case folding, removal of ignorable characters, and compatibility
// composition. The result is NFKC_Casefold of the Unicode standard (section 3.13,
// D147), with these changes:
//
//   - The letters i, I, dotless i and dotted I become i. Otherwise Turkish texts in
//     upper and in lower case would have different tokens.
//   - Tatweel, Hebrew points and accents, and Arabic vowel signs and recitation marks
//     are ignorable. Most texts leave them out, and some texts use them only in part.
//   - Thai and Lao sara am remain one character, as people type them.
//
// All other diacritics remain, since they distinguish words in most languages that use
// them.
//
// Unicode never changes the normal form of assigned characters, so newer tables in
// x/text give the same result. The caller must not pass characters that are not
// assigned in Unicode 15.0.
type normalizer struct {
	iter                         norm.Iter // unlike norm.Form.Append, it does not allocate
	decomposed, folded, composed []byte
	cache                        []cachedForm // by the hash of the sequence
}

// cachedForm is the normal form of a short sequence. A text repeats few sequences many times.
type cachedForm struct {
	sequence [2]uint64
	size     uint8
	normal   [cachedSize]byte
}

const (
	cacheSize  = 1024
	cachedSize = 64
)

// form returns the normal form of the combining sequence text[start:end]. It is valid until the
// next call.
func (n *normalizer) form(t *tables, text []byte, start, end int) []byte {
	size := end - start
	if size > 16 {
		return n.normalize(t, text[start:end])
	}
	if n.cache == nil {
		n.cache = make([]cachedForm, cacheSize) // most texts do not need it
	}
	mask := &firstBytes[size]
	// zeros fill the key: no sequence contains a zero byte
	key := [2]uint64{load(text, start) & mask[0], load(text, start+8) & mask[1]}
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

// sequenceEnd returns the end of the combining sequence that begins at i: one character, and the
// characters after it that combine or are ignorable.
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

// normalize returns the normal form of text. It is valid until the next call.
func (n *normalizer) normalize(t *tables, text []byte) []byte {
	n.decomposed = n.appendForm(n.decomposed[:0], norm.NFKD, text)
	n.folded = t.appendStripped(n.folded[:0], n.decomposed)
	n.composed = n.appendForm(n.composed[:0], norm.NFKC, n.folded)
	normal := n.composed
	for _, r := range replacements {
		if bytes.Contains(normal, r[0]) { // rare
			normal = bytes.ReplaceAll(normal, r[0], r[1])
		}
	}
	return normal
}

// replacements lists the replacements in composed text.
var replacements = [][2][]byte{
	// Thai sara am; no other character decomposes to this
	{[]byte("\u0E4D\u0E32"), []byte("\u0E33")},
	{[]byte("\u0ECD\u0EB2"), []byte("\u0EB3")}, // Lao sara am
	{[]byte("\u034F"), nil},                    // package norm inserts it after 30 marks
}

// sureIter is the length in bytes up to which norm.Iter is known to be correct. After about 30
// marks, it miscounts the marks in the decompositions of letters.
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

// appendStripped folds the case of decomposed text. It drops ignorable characters and
// the dot above an i.
func (t *tables) appendStripped(dst, decomposed []byte) []byte {
	afterI := false // whether dst ends with i, or with i and marks
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

// isSaraAm reports whether two characters are a decomposed sara am.
func isSaraAm(first, second rune) bool {
	return (second == 0x0E32 || second == 0x0EB2) && first == second+0x1B
}
