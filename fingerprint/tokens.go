package fingerprint

import (
	"encoding/binary"
	"slices"
	"unicode/utf8"
)

// chunkSize is how many bytes of text go through the tokenizer's loops at a time.
const chunkSize = 2 << 10

// tokenizer cuts a text into normalised tokens (see class) and hashes them.
//
// The tokens are those of the normal form of the whole text, but hardly any text
// needs to be normalised: the classes tell whether a character is its own normal
// form, or differs in case and width only. Where that is in doubt, the part from
// the token's first character to the next separator goes through the normaliser
// and is cut again.
//
// A chunk of the text goes through three loops. The first writes it in normal form,
// with zeros between tokens (no token has one); the second finds where tokens begin
// and end; the third hashes them. None of them branches on the length of a word,
// which no processor can predict.
type tokenizer struct {
	tables    *tables
	text      []byte
	pos       int
	from      int // where the last token begins at the earliest
	hash      Hash
	list      *tokenList // gets the tokens' text, if not nil
	chunk     int        // bytes
	inSingles bool       // at the beginning of what hashSingles takes
	units     int        // words so far, times wordUnits
	out       []byte     // the chunk in normal form, from byte 1 on
	masks     []uint64
	edges     []uint32 // where tokens begin and end in it
	folded    []byte
	normal    normalizer

	compositions []composition
	pair         []byte
}

func (t *tokenizer) begin(text []byte, hash Hash, list *tokenList) {
	if t.tables == nil {
		t.tables, t.chunk = loadTables(), chunkSize
	}
	t.text, t.pos, t.units, t.inSingles = text, 0, 0, false
	t.hash, t.list = hash, list
}

// keptText is how large the buffers may be that stay for the next text.
const keptText = 64 << 10

// end lets go of the text, and of buffers that a very long word has left.
func (t *tokenizer) end() {
	t.text, t.list = nil, nil
	if cap(t.folded)+cap(t.normal.composed)+cap(t.out) > keptText {
		t.folded, t.out, t.masks, t.edges, t.normal = nil, nil, nil, nil, normalizer{}
	}
}

func (t *tokenizer) done() bool { return t.pos >= len(t.text) }

func (t *tokenizer) words() int { return t.units / wordUnits }

// next appends the hashes of the next tokens to dst: n or more, or all that are left.
func (t *tokenizer) next(dst []uint64, n int) []uint64 {
	for limit := len(dst) + n; len(dst) < limit && !t.done(); {
		if t.inSingles {
			dst = t.hashSingles(dst, limit-len(dst))
		} else {
			dst = t.nextChunk(dst)
		}
	}
	return dst
}

// nextChunk is next for a chunk of the text and what belongs to its last token.
func (t *tokenizer) nextChunk(dst []uint64) []uint64 {
	t.out = append(t.out[:0], 0)
	t.from = t.pos
	end := min(t.pos+t.chunk, len(t.text))
	for t.pos < end && !t.inSingles {
		t.fill(end)
		if t.out[len(t.out)-1] != 0 { // within a token
			end = min(t.pos+1, len(t.text))
		}
	}
	return t.hashTokens(dst)
}

// fill appends the text's normal form to t.out, to end or not far after it.
func (t *tokenizer) fill(end int) {
	for t.pos < end {
		t.out = slices.Grow(t.out, simpleRoom(end-t.pos))
		i, o := t.simple(t.out[:cap(t.out)], len(t.out), t.pos, end)
		t.pos, t.out = i, t.out[:o]
		if t.inSingles {
			return
		}
		if i < end {
			t.notSimple()
		}
	}
}

// notSimple takes the character that simple has stopped at, and those before it that
// may belong to its token: simple has written them, but what they become
// depends on what comes after them.
func (t *tokenizer) notSimple() {
	switch c, _, size := t.tables.at(t.text, t.pos); c {
	case separator:
		t.out = append(t.out, 0)
		t.pos += size
	case ignorable:
		t.pos += size
	default:
		start, units := t.tokenStart()
		if start < t.pos {
			t.units -= units - wordUnits
			t.dropToken()
		}
		t.pos = t.word(t.text, start, false)
		t.from = t.pos
	}
}

// tokenStart gives where the token begins that stands before t.pos, if a character
// there may belong to it, and its units.
func (t *tokenizer) tokenStart() (start, units int) {
	start = t.pos
	for i := start; i > t.from; {
		r, size := utf8.DecodeLastRune(t.text[t.from:i])
		i -= size
		switch c := t.tables.classOf(r); {
		case c == separator || c == unknown:
			return start, wordUnits
		case c == single || c == singleComposing:
			if start == t.pos {
				return i, singleUnits(r)
			}
			return start, wordUnits
		case c != ignorable && c < slowMark:
			start = i
		}
	}
	return start, wordUnits
}

// dropToken takes the last token off t.out.
func (t *tokenizer) dropToken() {
	n := len(t.out)
	for t.out[n-1] == 0 {
		n--
	}
	for t.out[n-1] != 0 {
		n--
	}
	t.out = t.out[:n]
}

// cut is for text in normal form.
func (t *tokenizer) cut(normal []byte) {
	for i := 0; i < len(normal); {
		i = t.word(normal, i, true)
	}
}

// emit appends a token in normal form.
func (t *tokenizer) emit(token []byte, units int) {
	t.out = append(append(t.out, token...), 0)
	t.units += units - wordUnits // hashTokens adds wordUnits for every token
}

// word reads what begins at i: a token, a part that needs the normaliser, or a
// character that is in no token. It gives the place after it.
func (t *tokenizer) word(text []byte, i int, normal bool) int {
	start := i
	prev, r, size := t.tables.at(text, i)
	i += size
	units, isSingle, changed := wordUnits, false, false
	switch {
	case prev == separator || prev == ignorable || prev >= maybeMark:
		return i
	case prev == unknown:
		t.emit(text[start:i], singleUnits(r))
		return i
	case prev == slow || prev == slowMark:
		if !normal {
			return t.normalized(text, start)
		}
		if prev == slowMark {
			return i
		}
	case prev == single || prev == singleComposing:
		units, isSingle = singleUnits(r), true
	case prev == cased:
		changed = true
	}
	harmless := inRuns
	if isSingle {
		harmless = afterSingles
	}

loop:
	for {
		if i, prev = t.tables.skip(text, i, prev, harmless); i == len(text) {
			break
		}
		var c class
		c, _, size = t.tables.at(text, i)
		switch {
		case c == separator || c == unknown:
			break loop
		case c == single || c == singleComposing:
			if !isSingle || !prev.conjoins() {
				break loop
			}
		case c <= cased && c >= letter || c == slow:
			if isSingle && !(c == slow && prev.conjoins()) {
				break loop
			}
			if c == cased {
				changed = true
			}
			if !normal && (c == slow || c == letterMaybe && (prev == letterComposing || prev == cased || prev == ignorable)) {
				return t.normalized(text, start)
			}
		case normal:
			// A mark, in order and composed.
		case c == ignorable:
			if prev >= markOrdered {
				return t.normalized(text, start)
			}
			changed = true
		case c == slowMark,
			c == maybeMark && prev != letter && prev != single && prev != markStarter,
			c >= markOrdered && (prev == ignorable || prev == maybeMark || prev >= markOrdered && c < prev):
			return t.normalized(text, start)
		}
		prev = c
		i += size
	}
	token := text[start:i]
	if changed {
		token = t.foldToken(token)
	}
	t.emit(token, units)
	return i
}

// at gives the character at i, its class and its size.
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

// The classes that ask for nothing, wherever they stand in a token.
const (
	inRuns       uint32 = 1<<letter | 1<<letterComposing | afterSingles
	afterSingles uint32 = 1<<markStarter | 1<<markComposing
)

// skip goes over characters of up to three bytes of these classes. It gives the
// place, and the class of the last one or else prev.
func (t *tables) skip(text []byte, i int, prev class, classes uint32) (int, class) {
	for i+3 <= len(text) {
		b0, b1, b2 := text[i], text[i+1], text[i+2]
		r, size := rune(b0), 1
		switch {
		case b0 < 0x80:
		case b0 < 0xe0:
			r, size = rune(b0&0x1f)<<6|rune(b1&0x3f), 2
			if b0 < 0xc2 || b1&0xc0 != 0x80 {
				return i, prev
			}
		default:
			r, size = rune(b0&0x0f)<<12|rune(b1&0x3f)<<6|rune(b2&0x3f), 3
			if b0 >= 0xf0 || r < 0x800 || b1&0xc0 != 0x80 || b2&0xc0 != 0x80 {
				return i, prev
			}
		}
		c := t.class[r]
		if c >= markOrdered || classes>>c&1 == 0 {
			return i, prev
		}
		prev = c
		i += size
	}
	return i, prev
}

// foldToken gives a token with its case folded and without what is ignorable.
func (t *tokenizer) foldToken(token []byte) []byte {
	t.folded = t.folded[:0]
	for i := 0; i < len(token); {
		r, size := utf8.DecodeRune(token[i:])
		switch t.tables.classOf(r) {
		case cased:
			t.folded = t.tables.appendFolded(t.folded, r)
		case ignorable:
		default:
			t.folded = append(t.folded, token[i:i+size]...)
		}
		i += size
	}
	return t.folded
}

// longPart keeps parts short where a script has no spaces: only short ones are remembered, and
// what one character needs should not be asked for many.
const longPart = 32

// normalized takes the part from start to the next separator through the
// normaliser.
func (t *tokenizer) normalized(text []byte, start int) int {
	i, prev := start, separator
	for i < len(text) {
		r, size := utf8.DecodeRune(text[i:])
		c := t.tables.classOf(r)
		if c == separator || c == unknown {
			break
		}
		// A long part may end where a token of one character begins for sure.
		if i-start > longPart && (c == single || c == singleComposing) && prev == single {
			break
		}
		prev = c
		i += size
	}
	t.cut(t.normal.remembered(t.tables, text[start:i]))
	return i
}
