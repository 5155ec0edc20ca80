package page

import (
	"bytes"
	"slices"
)

// withoutURLs replaces each URL with a scheme or www., and the target of each Markdown
// link, as in [text](target), by a space. A URL ends at the first character that RFC
// 3986 does not allow in it: a space, a quote, a bracket or a character outside of
// ASCII. Text in a script without spaces may therefore follow a URL. The result is text
// itself if it has no URL, and shares memory with w otherwise.
func (w *textWriter) withoutURLs(text []byte) []byte {
	var (
		b       = w.text[:0]
		schemes = searchFor(text, "://")
		hosts   = searchFor(text, "www.")
		links   = searchFor(text, "](")
		done    = 0 // text before this offset has been copied or left out
	)
	for {
		var from, to int
		switch first := min(schemes.at, hosts.at, links.at); first {
		case len(text):
			if done == 0 {
				return text
			}
			w.text = append(b, text[done:]...)
			return w.text
		case schemes.at:
			if from = schemeBefore(text, done, first); from < first {
				to = urlEnd(text, first+len("://"))
			}
			schemes.next(text, max(to, first+1))
		case hosts.at:
			if from = first; first == 0 || !isWord(text[first-1]) {
				to = urlEnd(text, first+len("www."))
			}
			hosts.next(text, max(to, first+1))
		default:
			from = first + len("](")
			to = targetEnd(text, from)
			links.next(text, max(to, first+1))
		}
		if to > max(from, done) {
			if done == 0 {
				b = slices.Grow(b, len(text))
			}
			b = append(append(b, text[done:max(from, done)]...), ' ')
			done = to
		}
	}
}

// search finds the occurrences of a string. Its field at is the offset of the next one,
// or the length of the text.
type search struct {
	what []byte
	at   int
}

func searchFor(text []byte, what string) search {
	s := search{what: []byte(what)}
	s.next(text, 0)
	return s
}

func (s *search) next(text []byte, from int) {
	s.at = len(text)
	if n := bytes.Index(text[from:], s.what); n >= 0 {
		s.at = from + n
	}
}

// longestScheme is longer than any scheme in use.
const longestScheme = 32

// schemeBefore returns the offset, at least after, of the scheme of a URL whose :// is at
// colon. It returns colon if there is no scheme.
func schemeBefore(text []byte, after, colon int) int {
	from := colon
	for from > max(after, colon-longestScheme) && (isWord(text[from-1]) ||
		bytes.IndexByte([]byte("+-."), text[from-1]) >= 0) {
		from--
	}
	for from < colon && tagBytes[text[from]]&letter == 0 {
		from++
	}
	return from
}

// urlEnd returns the end of a URL whose host begins at an offset, or 0 if no host
// begins there.
func urlEnd(text []byte, host int) int {
	i := host
	for i < len(text) && !notInURL[text[i]] {
		i++
	}
	if i == host {
		return 0
	}
	return i
}

var notInURL = func() (not [256]bool) {
	for c := range not {
		not[c] = c <= ' ' || c >= 0x7f || bytes.IndexByte([]byte("<>\"[]{}|\\^`"), byte(c)) >= 0
	}
	return not
}()

// targetEnd returns the end of the target of a Markdown link that begins at offset i, or
// 0 if no target begins there. A target has neither spaces nor brackets, its parentheses
// are balanced, and the end of the link or a title follows.
func targetEnd(text []byte, i int) int {
	for open := 0; i < len(text) && text[i] > ' ' && text[i] != '[' && text[i] != ']'; i++ {
		switch text[i] {
		case '(':
			open++
		case ')':
			if open == 0 {
				return i
			}
			open--
		}
	}
	if i+1 < len(text) && text[i] == ' ' && (text[i+1] == '"' || text[i+1] == '\'') {
		return i
	}
	return 0
}
