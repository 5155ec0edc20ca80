package page

import (
	"bytes"
	"strconv"
	"unicode"

	"golang.org/x/net/html"
)

// textWriter collapses white space and keeps block boundaries.
type textWriter struct {
	text []byte
	gap  byte // separates text from the next word: 0, ' ' or '\n'
}

func (w *textWriter) newline() { w.gap = '\n' }

// whole writes the current text token of a scanner.
func (w *textWriter) whole(s *scanner) {
	text := s.doc[s.from:s.to]
	if s.rawText && bytes.IndexByte(text, 0) >= 0 {
		text = bytes.ReplaceAll(text, []byte{0}, []byte("\uFFFD"))
	}
	if s.literal {
		w.write(text)
		return
	}
	for {
		n := bytes.IndexByte(text, '&')
		if n < 0 {
			w.write(text)
			return
		}
		w.write(text[:n])
		decoded, size := reference(text[n:])
		w.write([]byte(decoded))
		text = text[n+size:]
	}
}

// write appends text. It copies single spaces together with the words around them.
func (w *textWriter) write(s []byte) {
	for i := 0; i < len(s); {
		if asciiSpace[s[i]] {
			if w.gap == 0 {
				w.gap = ' '
			}
			i++
			continue
		}
		start := i
		for i < len(s) && (!asciiSpace[s[i]] || s[i] == ' ' && i+1 < len(s) &&
			!asciiSpace[s[i+1]]) {
			i++
		}
		if w.gap != 0 && len(w.text) > 0 {
			w.text = append(w.text, w.gap)
		}
		w.gap = 0
		w.text = append(w.text, s[start:i]...)
	}
}

var asciiSpace = [256]bool{' ': true, '\n': true, '\t': true, '\r': true, '\f': true}

// longestReference is longer than any name of the HTML standard.
const longestReference = 48

// reference decodes the character reference at the start of text, which begins with
// &, and returns the number of its bytes. It returns "&" and 1 if there is no character
// reference.
func reference(text []byte) (decoded string, size int) {
	i := 1
	if i < len(text) && text[i] == '#' {
		i++
	}
	for i < len(text) && i < longestReference && isWord(text[i]) {
		i++
	}
	if i < len(text) && text[i] == ';' {
		i++
	}
	if decoded, ok := usualReferences[string(text[1:i])]; ok {
		return decoded, i
	}
	switch {
	case i == 1:
		return "&", 1
	case text[1] == '#':
		return numericReference(text)
	}
	// The library decodes names, which may end without a semicolon.
	whole := html.UnescapeString(string(text[:i]))
	if whole == string(text[:i]) {
		return "&", 1
	}
	return whole, i
}

func numericReference(text []byte) (decoded string, size int) {
	i, base := 2, uint(10)
	if i < len(text) && text[i]|0x20 == 'x' {
		i, base = 3, 16
	}
	start, number := i, uint(0)
	for ; i < len(text); i++ {
		digit := digitOf(text[i])
		if digit >= base {
			break
		}
		number = min(number*base+digit, unicode.MaxRune+1)
	}
	if i == start {
		return "&", 1
	}
	if i < len(text) && text[i] == ';' {
		i++
	}
	// The HTML standard replaces some numbers.
	return html.UnescapeString("&#" + strconv.Itoa(int(number)) + ";"), i
}

func digitOf(c byte) uint {
	switch {
	case '0' <= c && c <= '9':
		return uint(c - '0')
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return uint(c|0x20-'a') + 10
	}
	return 99
}

func isWord(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z'
}

// usualReferences has most character references of pages, which are decoded without the library.
var usualReferences = func() map[string]string {
	m := map[string]string{}
	for _, name := range bytes.Fields([]byte("amp lt gt quot apos nbsp copy reg trade hellip " +
		"mdash ndash lsquo rsquo ldquo rdquo laquo raquo " +
		"bull middot times euro pound deg sect para eacute egrave agrave ecirc ccedil uuml ouml " +
		"auml szlig Uuml Ouml Auml aacute iacute oacute uacute " +
		"ntilde #39 #039 #8217 #8216 #8220 #8221 #8211 #8212 #8230 #160 #38 #038 #x27 #x2F #34 " +
		"#10 #13 #xA0 #xa0 #8203 rarr larr shy zwj zwnj")) {
		m[string(name)+";"] = html.UnescapeString("&" + string(name) + ";")
	}
	return m
}()
