package corpus

import (
	"bytes"
	"iter"
	"unicode/utf16"
	"unicode/utf8"
)

// jsonValue is the JSON of one value.
type jsonValue []byte

// isText says whether the value can be read by text: a string or a number.
func (v jsonValue) isText() bool {
	return v[0] == '"' || v[0] == '-' || '0' <= v[0] && v[0] <= '9'
}

// text is the text of a string, in memory of its own, or the digits of a
// number; nil for no value. Bytes that are not UTF-8 become U+FFFD.
func (v jsonValue) text() []byte {
	if len(v) == 0 || v[0] != '"' {
		return v
	}
	return unquote(v[1 : len(v)-1])
}

// members gives the names and values of an object. It relies on the JSON
// being valid, which was checked; a second full parse would only cost time.
func members(object []byte) iter.Seq2[[]byte, jsonValue] {
	return func(yield func([]byte, jsonValue) bool) {
		i := skipSpace(object, 0) + 1
		for {
			i = skipSpace(object, i)
			if object[i] == '}' {
				return
			}
			if object[i] == ',' {
				i = skipSpace(object, i+1)
			}
			end := stringEnd(object, i)
			name := object[i+1 : end-1]
			if bytes.IndexByte(name, '\\') >= 0 {
				name = unquote(name)
			}
			i = skipSpace(object, skipSpace(object, end)+1)
			end = valueEnd(object, i)
			if !yield(name, jsonValue(object[i:end])) {
				return
			}
			i = end
		}
	}
}

func skipSpace(b []byte, i int) int {
	for b[i] == ' ' || b[i] == '\t' || b[i] == '\r' || b[i] == '\n' {
		i++
	}
	return i
}

// stringEnd is the index behind the string that begins at i.
func stringEnd(b []byte, i int) int {
	for i++; ; {
		quote := i + bytes.IndexByte(b[i:], '"')
		slashes := 0
		for quote-slashes > i && b[quote-slashes-1] == '\\' {
			slashes++
		}
		i = quote + 1
		if slashes%2 == 0 {
			return i
		}
	}
}

// valueEnd is the index behind the value that begins at i.
func valueEnd(b []byte, i int) int {
	for depth := 0; ; {
		switch b[i] {
		case '"':
			i = stringEnd(b, i)
			if depth == 0 {
				return i
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		default:
			if depth == 0 {
				return i + bytes.IndexAny(b[i:], ",} \t\r\n")
			}
		}
		i++
	}
}

// unquote undoes the escapes of the inside of a valid JSON string.
func unquote(b []byte) []byte {
	out := make([]byte, 0, len(b))
	for {
		i := bytes.IndexByte(b, '\\')
		if i < 0 {
			out = append(out, b...)
			break
		}
		out = append(out, b[:i]...)
		c := b[i+1]
		b = b[i+2:]
		switch c {
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		case 'u':
			r := hexRune(b)
			b = b[4:]
			if utf16.IsSurrogate(r) {
				if pair := utf16.DecodeRune(r, nextEscape(b)); pair != utf8.RuneError {
					r = pair
					b = b[6:]
				}
			}
			out = utf8.AppendRune(out, r)
		default: // '"', '\\', '/'
			out = append(out, c)
		}
	}
	if !utf8.Valid(out) {
		out = bytes.ToValidUTF8(out, []byte("\uFFFD"))
	}
	return out
}

// hexRune reads four digits of an escape that is valid.
func hexRune(b []byte) rune {
	return hexDigit(b[0])<<12 | hexDigit(b[1])<<8 | hexDigit(b[2])<<4 | hexDigit(b[3])
}

// hexDigit is the value of a digit that is one.
func hexDigit(c byte) rune {
	if c <= '9' {
		return rune(c - '0')
	}
	return rune(c|0x20-'a') + 10
}

// nextEscape is the \u escape that b begins with, or U+FFFD.
func nextEscape(b []byte) rune {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return utf8.RuneError
	}
	return hexRune(b[2:])
}
