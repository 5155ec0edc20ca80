package fingerprint

import (
	"bytes"
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
// form, or differs in case and width only. Where that is in doubt, the combining
// character sequence (Unicode D56) goes through the normaliser. Sequences are
// normalised one by one, so memory does not grow with the text.
//
// A chunk of the text goes through three loops. The first writes it in normal form,
// with zeros between tokens (no token has one); the second finds where tokens begin
// and end; the third hashes them. None of them branches on the length of a word,
// which no processor can predict.
type tokenizer struct {
	tables     *tables
	text       []byte
	pos        int
	from       int                       // what is before it is done with
	each       func(token []byte) uint64 // takes the place of hashToken, if not nil
	chunk      int                       // bytes
	inSingles  bool                      // at the beginning of what hashSingles takes
	units      int                       // words so far, times wordUnits
	out        []byte                    // the chunk in normal form, from byte 1 on
	open       []byte                    // the token at its end
	unsearched int                       // there is no end of a token in out between byte 1 and this one
	masks      []uint64
	boundaries []uint32 // where tokens begin and end in it
	normal     normalizer
}

func (t *tokenizer) begin(text []byte, hash Hash) {
	if t.tables == nil {
		t.tables, t.chunk = loadTables(), chunkSize
	}
	t.text, t.pos, t.from, t.units, t.inSingles = text, 0, 0, 0, false
	t.out = append(t.out[:0], 0)
	if t.each = nil; hash == HashFNV1 {
		t.each = fnv1Bytes
	}
}

// keptText is how large the buffers may be that stay for the next text.
const keptText = 64 << 10

// end lets go of the text, and of buffers that a very long word has left.
func (t *tokenizer) end() {
	t.text, t.each = nil, nil
	if cap(t.normal.composed)+cap(t.out)+cap(t.open) > keptText {
		t.out, t.open, t.masks, t.boundaries, t.normal = nil, nil, nil, nil, normalizer{}
	}
}

// Tokens gives the words of a text in normal form, in order: the features that an
// [Analyzer] with Window 1 has. It is for features that an Analyzer does not make; see
// the examples.
func Tokens(text string) []string { return new(tokenizer).tokens(text) }

func (t *tokenizer) tokens(text string) (tokens []string) {
	t.begin([]byte(text), Folded)
	t.each = func(token []byte) uint64 {
		tokens = append(tokens, string(token))
		return 0
	}
	t.next(nil, len(text)+1)
	t.end()
	return tokens
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

// nextChunk is next for a chunk of the text, or so many that a token ends in them. What is left
// of t.out is the beginning of the next token.
func (t *tokenizer) nextChunk(dst []uint64) []uint64 {
	for {
		t.unsearched = len(t.out)
		t.fill(min(t.pos+t.chunk, len(t.text)))
		if t.done() || t.inSingles {
			t.out = append(t.out, 0)
		}
		if end := bytes.LastIndexByte(t.out[t.unsearched:], 0); end >= 0 {
			end += t.unsearched + 1
			t.open = append(t.open[:0], t.out[end:]...)
			t.out = t.out[:end]
			dst = t.hashTokens(dst)
			t.out = append(append(t.out[:0], 0), t.open...)
			return dst
		}
	}
}

// fill appends the text's normal form to t.out, to end or not far after it.
func (t *tokenizer) fill(end int) {
	for t.pos < end {
		t.out = slices.Grow(t.out, fastPathRoom(end-t.pos))
		i, o := t.fastPath(t.out[:cap(t.out)], len(t.out), t.pos, end)
		t.pos, t.out = i, t.out[:o]
		if t.inSingles {
			return
		}
		if i < end {
			t.slow(end)
		}
	}
}

// slow takes what the fast path has stopped at: a separator, or combining sequences up to one
// that the fast path may take.
func (t *tokenizer) slow(limit int) {
	switch c, r, size := t.tables.at(t.text, t.pos); c {
	case separator:
		t.out = append(t.out, 0)
		t.pos += size
	case ignorable:
		t.pos += size
	case unknown:
		t.out = append(append(append(t.out, 0), t.text[t.pos:t.pos+size]...), 0)
		t.units += singleUnits(r) - wordUnits
		t.pos += size
	default:
		t.sequences(t.sequenceStart(c), limit)
	}
}

// sequences appends the normal forms of the combining sequences from start on, to the first
// that the fast path may take, or to limit.
func (t *tokenizer) sequences(start, limit int) {
	for bound := false; ; {
		end, next := t.tables.sequenceEnd(t.text, start)
		f := t.normal.form(t.tables, t.text, start, end)
		form, units := f.text, f.units
		if bound {
			if first, isSingle := t.tables.firstSingle(form); isSingle {
				form, units = form[1:], units-singleUnits(first)+wordUnits // the token goes on
			} else {
				t.out = append(t.out, 0)
			}
		}
		t.out = append(t.out, form...)
		t.units += units
		start, bound = end, f.bound
		if goesOn := bound && (next == single || next == singleComposing || next == slow); !goesOn && (next != slow || start >= limit) {
			if bound {
				t.out = append(t.out, 0)
			}
			break
		}
	}
	t.pos, t.from = start, start
}

// sequenceStart gives where the combining sequence begins that the character at t.pos, of
// class c, belongs to. What the fast path has written of it is taken off t.out.
func (t *tokenizer) sequenceStart(c class) int {
	i, o := t.pos, len(t.out)
	for combines(c) && i > t.from && t.out[o-1] != 0 {
		r, size := utf8.DecodeLastRune(t.text[t.from:i])
		switch c = t.tables.classOf(r); {
		case c == ignorable:
			i, c = i-size, slowMark
			continue
		case c == cased:
			o -= len(t.tables.appendFolded(t.normal.folded[:0], r))
		case c == letter || c == letterComposing || combines(c):
			o -= size
		default: // nothing of its token
			size, c = 0, letter
		}
		i -= size
	}
	t.out, t.unsearched = t.out[:o], min(t.unsearched, o)
	return i
}

// combines reports whether a character of class c may combine with what is before it.
func combines(c class) bool { return c >= slowMark || c == letterMaybe }

// sequenceEnd gives where the combining sequence ends that begins at i: a character, and those
// after it that combine or are ignorable. It also gives the class of what follows.
func (t *tables) sequenceEnd(text []byte, i int) (end int, next class) {
	_, last, size := t.at(text, i)
	for i += size; i < len(text); i += size {
		var r rune
		if next, r, size = t.at(text, i); next == ignorable {
			continue
		}
		if !combines(next) && !isSaraAm(last, r) {
			return i, next
		}
		last = r
	}
	return i, separator
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
