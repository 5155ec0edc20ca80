package fingerprint

import (
	"encoding/binary"
	"math"
	"unicode/utf8"
)

// tokenizer cuts a text into normalised tokens (see class) and hashes them.
//
// The tokens are those of the normal form of the whole text, but hardly any text
// needs to be normalised: the classes tell whether a token is its own normal
// form, or differs in case and width only. Where that is in doubt, the part from
// the token's first character to the next separator goes through the normaliser
// and is cut again.
type tokenizer struct {
	tables *tables
	text   []byte
	pos    int
	hash   Hash
	list   *tokenList // gets the tokens' text, if not nil
	units  int        // words so far, times wordUnits
	ascii  [asciiBlock]uint64
	folded []byte
	normal normalizer
}

func (t *tokenizer) begin(text []byte, hash Hash, list *tokenList) {
	if t.tables == nil {
		t.tables = loadTables()
	}
	t.text = text[:len(text):len(text)] // see hashToken
	t.pos, t.hash, t.list, t.units = 0, hash, list, 0
}

// end lets go of the text, and of buffers that a very long word has left.
func (t *tokenizer) end() {
	t.text, t.list = nil, nil
	if cap(t.folded)+cap(t.normal.composed) > 16*longPart {
		t.folded, t.normal = nil, normalizer{}
	}
}

func (t *tokenizer) done() bool { return t.pos >= len(t.text) }

func (t *tokenizer) words() int { return t.units / wordUnits }

// next appends the hashes of the next tokens to dst: n, or a few more, or all
// that are left.
func (t *tokenizer) next(dst []uint64, n int) []uint64 {
	limit := len(dst) + n
	if t.list != nil || t.hash != XXH64 {
		dst, t.pos = t.scan(dst, t.text, t.pos, limit, false)
		return dst
	}
	dst, t.pos = t.scanHashes(dst, t.text, t.pos, limit)
	return dst
}

// What an ASCII byte is, or that it is none.
const (
	asciiWord  = 1
	asciiUpper = 2
	notASCII   = 4
)

var byteKinds = func() (kinds [256]uint8) {
	for c := range kinds {
		switch {
		case c >= 0x80:
			kinds[c] = notASCII
		case 'a' <= c && c <= 'z' || '0' <= c && c <= '9':
			kinds[c] = asciiWord
		case 'A' <= c && c <= 'Z':
			kinds[c] = asciiWord | asciiUpper
		}
	}
	return kinds
}()

// scan appends hashes to dst until it holds limit of them, and gives the place
// it came to. With normal set the text is in normal form.
func (t *tokenizer) scan(dst []uint64, text []byte, i, limit int, normal bool) ([]uint64, int) {
	for i < len(text) && len(dst) < limit {
		kind := byteKinds[text[i]]
		if kind == 0 {
			i++
			continue
		}
		start, all := i, kind
		for kind&asciiWord != 0 {
			all |= kind
			if i++; i == len(text) {
				kind = 0
				break
			}
			kind = byteKinds[text[i]]
		}
		switch {
		case kind == notASCII:
			dst, i = t.word(dst, text, start, normal)
		case all&asciiUpper != 0:
			t.folded = appendLower(t.folded[:0], text[start:i])
			dst = t.emit(dst, t.folded, wordUnits)
		default:
			dst = t.emit(dst, text[start:i], wordUnits)
		}
	}
	return dst, i
}

func appendLower(dst, word []byte) []byte {
	for _, c := range word {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		dst = append(dst, c)
	}
	return dst
}

// emit appends the hash of a token in normal form.
func (t *tokenizer) emit(dst []uint64, token []byte, units int) []uint64 {
	t.units += units
	var h uint64
	if t.hash == XXH64 {
		h = hashToken(token)
	} else {
		h = fnv1Bytes(token)
	}
	if t.list != nil {
		t.list.add(token, h)
	}
	return append(dst, h)
}

// word reads what begins at i: a token, a part that needs the normaliser, or a
// character that is in no token. It gives the place after it.
func (t *tokenizer) word(dst []uint64, text []byte, i int, normal bool) ([]uint64, int) {
	start := i
	prev, r, size := t.tables.at(text, i)
	i += size
	units, isSingle, changed := wordUnits, false, false
	switch {
	case prev == separator || prev == ignorable || prev >= maybeMark:
		return dst, i
	case prev == unknown:
		return t.emit(dst, text[start:i], singleUnits(r)), i
	case prev == slow || prev == slowMark:
		if !normal {
			return t.normalized(dst, text, start)
		}
		if prev == slowMark {
			return dst, i
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
				return t.normalized(dst, text, start)
			}
		case normal:
			// A mark, in order and composed.
		case c == ignorable:
			if prev >= markOrdered {
				return t.normalized(dst, text, start)
			}
			changed = true
		case c == slowMark,
			c == maybeMark && prev != letter && prev != single && prev != markStarter,
			c >= markOrdered && (prev == ignorable || prev == maybeMark || prev >= markOrdered && c < prev):
			return t.normalized(dst, text, start)
		}
		prev = c
		i += size
	}
	token := text[start:i]
	if changed {
		token = t.fold(token)
	}
	return t.emit(dst, token, units), i
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

// fold gives a token with its case folded and without what is ignorable.
func (t *tokenizer) fold(token []byte) []byte {
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

// longPart keeps the normaliser's memory small where a script has no spaces.
const longPart = 4 << 10

// normalized takes the part from start to the next separator through the
// normaliser.
func (t *tokenizer) normalized(dst []uint64, text []byte, start int) ([]uint64, int) {
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
	part := t.normal.remembered(t.tables, text[start:i])
	dst, _ = t.scan(dst, part, 0, math.MaxInt, true)
	return dst, i
}
