package page

import "bytes"

// scriptEnd is the place of the tag that ends a script whose content begins at
// i. In an escaped part, from <!-- to -->, a script element may nest, and then
// the first end tag is the nested one's.
func (s *scanner) scriptEnd(i int) int {
	doc := s.doc
	for {
		n := bytes.IndexByte(doc[i:], '<')
		if n < 0 {
			return len(doc)
		}
		i += n
		if s.endsRaw(i, "script") {
			return i
		}
		i++
		if !bytes.HasPrefix(doc[i:], []byte("!--")) {
			continue
		}
		var ended bool
		if i, ended = s.escapedScript(i + 3); ended {
			return i
		}
	}
}

// escapedScript reads an escaped part behind its <!--. It gives the place of the
// script's end and true, or the place where the escaped part ends.
func (s *scanner) escapedScript(i int) (next int, ended bool) {
	doc := s.doc
	dashes, nested := 2, false
	for i < len(doc) {
		switch c := doc[i]; {
		case c == '-':
			dashes++
			i++
			continue
		case c == '>' && dashes >= 2:
			return i + 1, false
		case c == '<' && nested:
			if s.endsRaw(i, "script") {
				nested = false
				i += len("</script>") - 1
			}
		case c == '<':
			if s.endsRaw(i, "script") {
				return i, true
			}
			switch rest := doc[i+1:]; {
			case len(rest) == 0 || rest[0] == '/':
			case tagBytes[rest[0]]&letter == 0:
				return i + 1, false
			default:
				n := scriptPrefix(rest)
				if n == len("script") && len(rest) > n && tagBytes[rest[n]]&(tagSpace|tagEnd) != 0 {
					nested = true
					n++
				}
				i += n
			}
		default:
			if n := bytes.IndexAny(doc[i:], "-<"); n > 0 {
				i += n - 1
			} else if n < 0 {
				return len(doc), true
			}
		}
		dashes = 0
		i++
	}
	return len(doc), true
}

// scriptPrefix is how many bytes b and "script" have in common.
func scriptPrefix(b []byte) int {
	const name = "script"
	n := 0
	for n < len(name) && n < len(b) && b[n]|0x20 == name[n] {
		n++
	}
	return n
}
