package fingerprint

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"unicode/utf8"
)

// tokenizer cuts a text into tokens in normal form (see class, normalizer) and hashes them.
//
// The tokens are those of the normal form of the whole text, but hardly any character has to be
// normalized: its class tells whether it is its own normal form, or differs in case or width only.
// Where that is in doubt, the combining character sequence (Unicode D56) goes through the normalizer.
// Sequences are normalized one by one, so memory does not grow with the text.
//
// characters is the plain way: it takes a character by its class. Two short cuts stand beside
// it: fastPath, for ASCII and letters, and singles, for ideographs and kana without marks.
type tokenizer struct {
	tables *tables
	text   []byte
	pos    int
	each   func(token []byte) // if not nil, takes the tokens, whose hashes are then not needed
	hashes []uint64           // of the tokens so far
	units  int                // words so far, times wordUnits
	normal normalizer

	// The open token: what there is of it so far, in normal form.
	token    []byte
	unspaced bool // it is of a script without spaces
	bound    bool // and ends in a mark that binds the next letter
	base     base // the last character in it that is no mark
}

// base is where the character that marks combine with begins.
type base struct{ text, token int }

func (t *tokenizer) begin(text []byte) {
	t.tables = loadTables()
	t.text, t.pos, t.units, t.each = text, 0, 0, nil
}

// keptToken is how large the buffers may be that stay for the next text.
const keptToken = 64 << 10

// end lets go of the text, and of buffers that a very long word has left.
func (t *tokenizer) end() {
	t.text, t.each = nil, nil
	if cap(t.normal.composed)+cap(t.token) > keptToken {
		t.token, t.normal = nil, normalizer{}
	}
}

// Tokens gives the words of a text in normal form, in order: the features that an
// [Analyzer] with Window 1 has. It is for features that an Analyzer does not make; see
// the examples.
func Tokens(text string) []string { return new(tokenizer).tokens(text) }

func (t *tokenizer) tokens(text string) (tokens []string) {
	t.begin([]byte(text))
	t.each = func(token []byte) { tokens = append(tokens, string(token)) }
	for !t.done() {
		t.next(nil, batchSize)
	}
	t.end()
	return tokens
}

func (t *tokenizer) done() bool { return t.pos >= len(t.text) }

func (t *tokenizer) words() int { return t.units / wordUnits }

// next appends the hashes of the next tokens to dst: n or more, or all that are left.
func (t *tokenizer) next(dst []uint64, n int) []uint64 {
	t.hashes = dst
	for limit := len(dst) + n; len(t.hashes) < limit && !t.done(); {
		if !t.unspaced {
			t.fastPath(limit)
		}
		t.characters(limit)
	}
	if t.done() {
		t.endToken()
	}
	dst, t.hashes = t.hashes, nil
	return dst
}

// endToken hashes the open token, if there is one.
func (t *tokenizer) endToken() {
	size := len(t.token)
	if size == 0 {
		return
	}
	t.token = slices.Grow(t.token, hashPadding)
	t.hashes = append(t.hashes, t.hash(t.token[:size+hashPadding], size))
	if t.unspaced {
		_, first, _ := t.tables.at(t.token, 0)
		t.units += singleUnits(first)
	} else {
		t.units += wordUnits
	}
	t.token, t.unspaced = t.token[:0], false
}

// characters takes characters by their classes, up to one that begins a run for fastPath or to so
// many hashes.
func (t *tokenizer) characters(limit int) {
	text, i := t.text, t.pos
	previous := slow // class of the character before, where it is known
	marks := false   // in text with many, fastPath is not worth going back to for a word
	for i < len(text) && len(t.hashes) < limit {
		c, r, size := t.tables.at(text, i)
		switch {
		case r < 0x80 && c == separator && marks:
			t.endToken()
		case r < 0x80 || r < 0x800 && t.tables.twoByte[r] != 0 || size == 3 && c.isLetter() && i+8 <= len(text):
			if t.unspaced {
				t.endToken()
			}
			t.pos = i
			return
		case c == ignorable:
		case c == unknown:
			t.endToken()
			t.token = append(t.token, text[i:i+size]...)
			t.endToken()
			t.units += singleUnits(r) - wordUnits
		case c == cased:
			if t.unspaced {
				t.endToken()
			}
			t.base = base{i, len(t.token)}
			t.token = t.tables.appendFolded(t.token, r)
		case c == single || c == singleComposing:
			if !t.bound || !t.unspaced {
				t.endToken()
				if end := t.singles(i, limit); end > i {
					i, previous = end, slow
					continue
				}
			}
			fallthrough
		case c < slow && c != letterMaybe:
			t.base.text = i
			t.take(c, text[i:i+size])
		case len(t.token) > 0 && c.staysAsIs(previous):
			t.take(c, text[i:i+size])
			marks = true
		default:
			i, previous = t.sequence(c, i), slow
			continue
		}
		previous = c
		i += size
	}
	t.pos = i
}

// take adds a character of class c, in normal form, to the open token, or ends that.
func (t *tokenizer) take(c class, char []byte) {
	switch {
	case c == separator:
		t.endToken()
	case c >= slowMark:
		if len(t.token) > 0 { // a mark with no letter before it is no word
			t.token = append(t.token, char...)
		}
	default:
		isSingle := c == single || c == singleComposing
		if t.unspaced && !(isSingle && t.bound) || isSingle && !t.unspaced {
			t.endToken()
		}
		t.base.token = len(t.token)
		t.token, t.unspaced = append(t.token, char...), isSingle
	}
	t.bound = c.conjoins()
}

// sequence takes the combining sequence that the character at i, of class c, belongs to, by its
// normal form. It gives where that ends.
func (t *tokenizer) sequence(c class, i int) int {
	if c.combines() && len(t.token) > 0 { // with the base, which is taken back
		i = t.base.text
		t.token = t.token[:t.base.token]
		// A character of a script without spaces that did not begin its token was bound to it.
		t.bound = t.unspaced && len(t.token) > 0
		t.unspaced = t.bound
	}
	end := t.tables.sequenceEnd(t.text, i)
	for normal := t.normal.form(t.tables, t.text, i, end); len(normal) > 0; {
		c, _, size := t.tables.at(normal, 0)
		for c.isLetter() && size < len(normal) {
			next, _, n := t.tables.at(normal, size)
			if !next.isLetter() {
				break
			}
			size += n
		}
		t.take(c, normal[:size])
		normal = normal[size:]
	}
	return end
}

// fastPath takes ASCII and letters of two and three bytes that need no more than a look at a
// table, to another character or to so many hashes. The open token is of no script without spaces.
//
// Where a word ends cannot be predicted, so ASCII is taken eight bytes at a time, and a token is
// hashed with no branch on its length but for one of more than 16 bytes.
func (t *tokenizer) fastPath(limit int) {
	text, letters := t.text, &t.tables.twoByte
	i, n := t.pos, len(t.hashes)
	hashes := slices.Grow(t.hashes, limit-n)[:limit]
	size, token := len(t.token), t.token[:cap(t.token)]
	for i < len(text) && n < limit {
		if size+2*hashPadding > len(token) {
			token = slices.Grow(token, 2*hashPadding+size)
			token = token[:cap(token)]
		}
		if text[i] < 0x80 {
			var x uint64
			if i+8 <= len(text) {
				x = binary.LittleEndian.Uint64(text[i:])
			} else {
				x = load(text, i)
			}
			word, stop := wordAtStart(x)
			length := bits.TrailingZeros64(stop) / 8
			ends := stop != 0 && x&stop == 0
			if ends && size == 0 && t.each == nil {
				hashes[n] = hash16(word, 0, length)
				if length > 0 { // most often
					n++
				}
				i += length + 1
				continue
			}
			binary.LittleEndian.PutUint64(token[size:], word)
			i += length
			size += length
			if !ends {
				continue
			}
		} else {
			start := i
			for end := min(len(text)-1, i+len(token)-size-hashPadding); i < end; i += 2 {
				pair := binary.LittleEndian.Uint16(text[i:])
				letter := letters[pair&0x1F<<6|pair>>8&0x3F]
				if pair&0xC0E0 != 0x80C0 || letter == 0 {
					break
				}
				binary.LittleEndian.PutUint16(token[size:], uint16(letter))
				size += int(letter >> 16)
			}
			if i == start {
				previous := slow // marks are taken after letters of this run only: see base
				for end := min(len(text)-8, i+len(token)-size-hashPadding); i <= end; i += 3 {
					x := binary.LittleEndian.Uint64(text[i:])
					c := t.tables.class[threeBytes(x)]
					if !isThreeBytes(x) || !c.isLetter() && (previous == slow || !c.staysAsIs(previous)) {
						break
					}
					binary.LittleEndian.PutUint32(token[size:], uint32(x))
					size += 3
					previous = c
				}
				if i == start {
					break
				}
			}
			if i == len(text) || t.tables.class[text[i]] != separator || text[i] >= 0x80 {
				continue
			}
		}
		i++
		if size > 0 {
			hashes[n] = t.hash(token, size)
			n++
		}
		size = 0
	}
	t.units += (n - len(t.hashes)) * wordUnits
	t.hashes = hashes[:n]
	if i > t.pos && size > 0 {
		t.base = base{i, size}
		for c := slowMark; c.combines(); {
			r, n := utf8.DecodeLastRune(text[:t.base.text])
			c = t.tables.classOf(r)
			t.base.text -= n
			if n == 2 {
				n = int(letters[r] >> 16)
			}
			t.base.token -= n
		}
	}
	t.pos, t.token = min(i, len(text)), token[:size]
}

// hash hashes the first size bytes of b, which has hashPadding more.
func (t *tokenizer) hash(b []byte, size int) uint64 {
	if t.each != nil && size > 0 {
		t.each(b[:size])
	}
	return hashToken(b, size)
}

// singles takes characters of three bytes from i on that are tokens of their own, with marks that
// stay as they are, and separators between them, to a character that may be otherwise or to so
// many hashes. It gives where they end. No token is open.
func (t *tokenizer) singles(i, limit int) int {
	text := t.text
	if t.each != nil || i+8 > len(text) {
		return i
	}
	n, units := len(t.hashes), 0
	hashes := slices.Grow(t.hashes, limit-n)[:limit]
	x := binary.LittleEndian.Uint64(text[i:])
	c := t.tables.classAhead(x)
	for n < limit && i+2*hashPadding <= len(text) && (c == single || c == singleComposing || c == separator) {
		end, previous := i+3, c
		next := binary.LittleEndian.Uint64(text[end:])
		nextClass := t.tables.classAhead(next)
		for nextClass.combines() && c != separator && nextClass.staysAsIs(previous) && !nextClass.conjoins() && end+2*hashPadding <= len(text) {
			end, previous = end+3, nextClass
			next = binary.LittleEndian.Uint64(text[end:])
			nextClass = t.tables.classAhead(next)
		}
		if nextClass == ignorable || nextClass.combines() {
			break
		}
		if end == i+3 {
			hashes[n] = hash16(x&0xFFFFFF, 0, 3)
		} else {
			hashes[n] = hashToken(text[i:], end-i)
		}
		if c != separator {
			n++
			units += int(pageUnits[threeBytes(x)>>8&0xFF])
		}
		x, c, i = next, nextClass, end
	}
	t.hashes = hashes[:n]
	t.units += units
	return i
}

// Eight ASCII bytes at a time: a byte of a mask is 0x80 for yes and 0 for no, the
// first byte of the text is the lowest.
const (
	everyByte = 0x0101010101010101
	highBits  = 0x80 * everyByte
)

// wordAtStart gives the ASCII letters and digits that x begins with, in lower case, and the high
// bit of the byte that ends them; 0 if none does.
func wordAtStart(x uint64) (word, stop uint64) {
	// With the high bit cleared no sum carries into the next byte.
	low := x &^ highBits
	folded := low | 0x20*everyByte
	letter := (folded + (0x80-'a')*everyByte) &^ (folded + (0x80-'z'-1)*everyByte)
	digit := (low + (0x80-'0')*everyByte) &^ (low + (0x80-'9'-1)*everyByte)
	letter &= highBits &^ x
	others := highBits &^ (letter | digit&^x)
	stop = others & -others
	return (x | letter>>2) & (stop>>7 - 1), stop
}

// load reads eight bytes of b from i on, zeros after its end.
func load(b []byte, i int) uint64 {
	if i+8 <= len(b) {
		return binary.LittleEndian.Uint64(b[i:])
	}
	var last [8]byte
	if i < len(b) {
		copy(last[:], b[i:])
	}
	return binary.LittleEndian.Uint64(last[:])
}
