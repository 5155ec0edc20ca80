package page

import (
	"bytes"
)

// textWriter collapses white space and keeps block boundaries.
type textWriter struct {
	text []byte
	gap  byte // what stands between text and the next word: 0, ' ' or '\n'
}

func (w *textWriter) newline() { w.gap = '\n' }

// whole writes the text that a scanner stands on.
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
		w.writeString(decoded)
		text = text[n+size:]
	}
}

func (w *textWriter) writeString(s string) {
	var b [16]byte
	w.write(append(b[:0], s...))
}

// write takes single spaces with the words around them.
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
		for i < len(s) && (!asciiSpace[s[i]] || s[i] == ' ' && i+1 < len(s) && !asciiSpace[s[i+1]]) {
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
