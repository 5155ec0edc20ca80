package fingerprint

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"unicode/utf8"
)

// tokenizer splits a text into tokens in normal form (see class and normalizer) and hashes them.
//
// The result is the same as if the whole text were normalized first. Few characters need the
// normalizer: the class of most characters says that the character is its own normal form, or
// differs from it in case or width only. If the class does not decide, the combining character
// sequence (Unicode D56) is normalized. Sequences are normalized one by one, so memory does not
// grow with the text.
//
// characters reads any text, one character at a time, by its class. Two faster functions read
// common text: fastPath reads ASCII and letters, and singles reads ideographs and kana without
// marks.
type tokenizer struct {
	tables *tables
	text   []byte
	pos    int
	each   func(token []byte) // if not nil, is called with each token; the hashes are not used
	hashes []uint64           // of the tokens so far
	units  int                // words so far, times wordUnits
	normal normalizer

	token    []byte // the beginning of the current token, in normal form
	unspaced bool   // the token is in a script without spaces
	bound    bool   // the token ends in a mark that binds the next letter
	base     base   // the last character of the token that is not a mark
}

// base has the offsets, in the text and in the token, of the character with which marks combine.
type base struct{ text, token int }

func (t *tokenizer) begin(text []byte) {
	t.tables = loadTables()
	t.text, t.pos, t.units, t.each = text, 0, 0, nil
}

// keptToken is the largest total size of the buffers that are kept for the next text, in bytes.
const keptToken = 64 << 10

// end releases the text, and also the buffers if a very long word made them large.
func (t *tokenizer) end() {
	t.text, t.each = nil, nil
	if cap(t.normal.composed)+cap(t.token) > keptToken {
		t.token, t.normal = nil, normalizer{}
	}
}

// Tokens returns the tokens of a text in normal form, in order: words, or single characters in
// scripts without spaces. A caller can compute features from them, as the examples show.
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

// next appends the hashes of the next tokens to dst: at least n hashes, or all that remain.
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

// endToken hashes the current token, if there is one.
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

// characters reads characters by their classes. It stops at a character that begins a run for
// fastPath, or when there are limit hashes.
func (t *tokenizer) characters(limit int) {
	text, i := t.text, t.pos
	previous := slow // class of the previous character, if it is known
	marks := false   // after a mark: the text may have many, and fastPath would often stop at them
	for i < len(text) && len(t.hashes) < limit {
		c, r, size := t.tables.at(text, i)
		switch {
		case r < 0x80 && c == separator && marks:
			t.endToken()
		case r < 0x80 || r < 0x800 && t.tables.twoByte[r] != 0 || size == 3 && c.isLetter() &&
			i+8 <= len(text):
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

// take adds a character of class c, in normal form, to the current token, or ends the token.
func (t *tokenizer) take(c class, char []byte) {
	switch {
	case c == separator:
		t.endToken()
	case c >= slowMark:
		if len(t.token) > 0 { // a mark without a letter before it does not begin a word
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

// sequence reads the combining sequence that contains the character at i, of class c, and passes
// its normal form to take. It returns the offset of the end of the sequence.
func (t *tokenizer) sequence(c class, i int) int {
	if c.combines() && len(t.token) > 0 { // the sequence begins at the base: remove it
		i = t.base.text
		t.token = t.token[:t.base.token]
		// A character of a script without spaces that did not begin its token was bound to the
		// token.
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

// fastPath reads ASCII, and letters of two and three bytes that one table lookup normalizes. It
// stops at any other character, or when there are limit hashes. The current token must not be in
// a script without spaces.
//
// The processor cannot predict the ends of words. Therefore fastPath reads ASCII eight bytes at a
// time, and hashes tokens of up to 16 bytes without a branch on their length.
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
				if length > 0 { // likely
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
				previous := slow // only marks after letters of this run are read here: see base
				for end := min(len(text)-8, i+len(token)-size-hashPadding); i <= end; i += 3 {
					x := binary.LittleEndian.Uint64(text[i:])
					c := t.tables.class[threeBytes(x)]
					if !isThreeBytes(x) || !c.isLetter() &&
						(previous == slow || !c.staysAsIs(previous)) {
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

// hash hashes the first size bytes of b. At least hashPadding more bytes must follow.
func (t *tokenizer) hash(b []byte, size int) uint64 {
	if t.each != nil && size > 0 {
		t.each(b[:size])
	}
	return hashToken(b, size)
}

// singles reads, from i on, characters of three bytes that are single tokens, marks after them
// that are their own normal form, and separators. It stops at any other character, or when there
// are limit hashes, and returns the offset. There must be no current token.
func (t *tokenizer) singles(i, limit int) int {
	text := t.text
	if t.each != nil || i+8 > len(text) {
		return i
	}
	n, units := len(t.hashes), 0
	hashes := slices.Grow(t.hashes, limit-n)[:limit]
	x := binary.LittleEndian.Uint64(text[i:])
	c := t.tables.classAhead(x)
	for n < limit && i+2*hashPadding <= len(text) &&
		(c == single || c == singleComposing || c == separator) {
		end, previous := i+3, c
		next := binary.LittleEndian.Uint64(text[end:])
		nextClass := t.tables.classAhead(next)
		for nextClass.combines() && c != separator && nextClass.staysAsIs(previous) &&
			!nextClass.conjoins() && end+2*hashPadding <= len(text) {
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

// Masks of eight ASCII bytes. A byte of a mask is 0x80 for true and 0 for false. The
// first byte of the text is the lowest byte.
const (
	everyByte = 0x0101010101010101
	highBits  = 0x80 * everyByte
)

// wordAtStart returns the ASCII letters and digits at the start of x, in lower case. stop is the
// high bit of the byte after them, or 0 if all eight bytes are letters and digits.
func wordAtStart(x uint64) (word, stop uint64) {
	// Without the high bits, no sum carries into the next byte.
	low := x &^ highBits
	folded := low | 0x20*everyByte
	letter := (folded + (0x80-'a')*everyByte) &^ (folded + (0x80-'z'-1)*everyByte)
	digit := (low + (0x80-'0')*everyByte) &^ (low + (0x80-'9'-1)*everyByte)
	letter &= highBits &^ x
	others := highBits &^ (letter | digit&^x)
	stop = others & -others
	return (x | letter>>2) & (stop>>7 - 1), stop
}

// load returns the eight bytes of b from i on. Bytes after the end of b are 0.
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
