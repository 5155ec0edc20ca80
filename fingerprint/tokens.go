package fingerprint

import (
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
	folded []byte
	normal normalizer
}

func (t *tokenizer) begin(text []byte, hash Hash, list *tokenList) {
	if t.tables == nil {
		t.tables = loadTables()
	}
	t.text, t.pos, t.hash, t.list, t.units = text, 0, hash, list, 0
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
	dst, t.pos = t.scanHashes(dst, t.text, t.pos, limit, false)
	return dst
}

// scanHashes is scan for tokens of which only the xxhash64 is asked. It takes
// ASCII words of up to 15 bytes in two steps of 8, and ideographs in a loop of
// their own, with few branches that depend on the text.
func (t *tokenizer) scanHashes(dst []uint64, text []byte, i, limit int, normal bool) ([]uint64, int) {
	for i < len(text) && len(dst) < limit {
		x := load(text, i)
		word, lower := wordBytes(x)
		n := firstByte(^word & highBits)
		if n == 8 {
			dst, i = t.longWord(dst, text, i, lower, normal)
			continue
		}
		if x>>(8*n)&0x80 != 0 {
			if n == 0 && isThreeBytes(x) {
				dst, i = t.ideographs(dst, text, i, limit)
			}
			if i < len(text) {
				dst, i = t.word(dst, text, i, normal)
			}
			continue
		}
		if n > 0 {
			dst = append(dst, hashTo7(lowBytes(lower, n), n))
			t.units += wordUnits
		}
		// On to the next byte that is no ASCII separator, as far as x reaches.
		i += n + firstByte((word|x&highBits)>>(8*n)|1<<(71-8*n))
	}
	return dst, min(i, len(text))
}

// longWord is for an ASCII word whose first 8 bytes, in lower case, are given.
func (t *tokenizer) longWord(dst []uint64, text []byte, i int, lower uint64, normal bool) ([]uint64, int) {
	word, rest := wordBytes(load(text, i+8))
	n := firstByte(^word & highBits)
	end := i + 8 + n
	if n == 8 || end < len(text) && text[end] >= 0x80 {
		return t.scan(dst, text, i, len(dst)+1, normal)
	}
	t.units += wordUnits
	return append(dst, hashTo15(lower, lowBytes(rest, n), n)), end
}

// ideographs takes a run of characters that are tokens of their own, each three
// bytes long and without marks. It stops before the first that may be otherwise,
// and goes on after a separator.
func (t *tokenizer) ideographs(dst []uint64, text []byte, i, limit int) ([]uint64, int) {
	class := &t.tables.class
	units := 0
	for i+11 <= len(text) && len(dst) < limit {
		x, y := load(text, i), load(text, i+3)
		if !isThreeBytes(x) {
			break
		}
		r := threeBytes(x)
		c := class[r]
		if c == separator {
			i += 3
			continue
		}
		if c != single && c != singleComposing {
			break
		}
		if y&0x80 != 0 {
			if !isThreeBytes(y) {
				break
			}
			if after := class[threeBytes(y)]; after == ignorable || after >= slowMark {
				break
			}
		}
		dst = append(dst, hash3(x))
		units += singleUnits(r)
		i += 3
	}
	t.units += units
	return dst, i
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
	r, size := utf8.DecodeRune(text[i:])
	prev := t.tables.classOf(r)
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

loop:
	for i < len(text) {
		var c class
		switch x := load(text, i); {
		case x&0x80 == 0:
			c, size = t.tables.class[x&0x7f], 1
		case isTwoBytes(x):
			c, size = t.tables.class[twoBytes(x)], 2
		case isThreeBytes(x):
			c, size = t.tables.class[threeBytes(x)], 3
		default:
			r, size = utf8.DecodeRune(text[i:])
			c = t.tables.classOf(r)
		}
		if !isSingle && (c == letter || c == letterComposing) {
			prev = c
			i += size
			continue
		}
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
	part := t.normal.normalize(t.tables, text[start:i])
	dst, _ = t.scan(dst, part, 0, math.MaxInt, true)
	return dst, i
}
