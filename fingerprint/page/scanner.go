package page

import (
	"bytes"
)

// token is the kind of the scanner's current token.
type token uint8

const (
	eofToken      token = iota // the end of the page
	textToken                  // text[from:to]
	startTagToken              // a start tag, self-closing or not
	endTagToken                // an end tag
)

// scanner splits a page into tokens as section 13.2.5 of the HTML standard specifies
// for a tokenizer without a tree, in which CDATA sections are comments. It returns the
// tokens of golang.org/x/net/html's tokenizer without comments and doctypes, which
// FuzzScanner checks. It allocates nothing and reads each byte once, most of them
// several at a time.
type scanner struct {
	doc []byte
	pos int // offset after the token
	// the document is XHTML: CDATA sections are text, and a self-closing tag has no content
	xml bool

	from, to int  // the text
	literal  bool // the text has no character references
	rawText  bool // the text is the content of a raw element, where a zero byte is U+FFFD

	tag         element
	selfClosing bool
	attributes  attributes
	attributed  bool // attributes may be set

	rawElement element // the last start tag, if its content is text
}

// attributes has the attributes of a start tag that the extractor uses. If a name occurs twice, the
// first value counts. The value of a missing attribute is nil.
type attributes struct {
	class, id, role, style, href, srcdoc []byte
	hidden, open                         bool
	shadow                               bool // shadowrootmode is open or closed
	mayHide                              bool // the tag has hidden, style or role
}

// The classes of bytes inside a tag.
const (
	tagSpace = 1 << iota
	tagEnd   // > and /
	tagEqual // =
	letter   // begins a tag name
)

var tagBytes = func() (kinds [256]uint8) {
	for _, c := range " \n\t\r\f" {
		kinds[c] = tagSpace
	}
	kinds['>'], kinds['/'], kinds['='] = tagEnd, tagEnd, tagEqual
	for c := 'a'; c <= 'z'; c++ {
		kinds[c], kinds[c-'a'+'A'] = letter, letter
	}
	return kinds
}()

func (s *scanner) next() token {
	if s.rawElement.class&raw != 0 && s.rawContent() {
		return textToken
	}
	s.literal, s.rawText = false, false
	doc, from := s.doc, s.pos
	for i := from; ; {
		open := bytes.IndexByte(doc[i:], '<')
		if open < 0 || i+open+1 >= len(doc) {
			return s.textUpTo(from, len(doc))
		}
		i += open
		c := doc[i+1]
		if tagBytes[c]&letter == 0 && c != '/' && c != '!' && c != '?' {
			i++
			continue
		}
		if i > from {
			return s.textUpTo(from, i)
		}
		switch {
		case c == '/':
			if i+2 >= len(doc) {
				return s.textUpTo(from, len(doc))
			}
			if tagBytes[doc[i+2]]&letter != 0 {
				return s.readTag(i+2, endTagToken)
			}
			i = s.after(i+2, '>')
		case c == '!':
			if i+3 < len(doc) && doc[i+2] == '-' && doc[i+3] == '-' {
				i = s.afterComment(i + 4)
			} else if s.xml && bytes.HasPrefix(doc[i+2:], []byte("[CDATA[")) {
				if s.cdata(i + len("<![CDATA[")) {
					return textToken
				}
				i = s.pos
			} else {
				i = s.after(i+2, '>')
			}
		case c == '?':
			i = s.after(i+2, '>')
		default:
			return s.readTag(i+1, startTagToken)
		}
		from = i
		s.pos = i
	}
}

func (s *scanner) textUpTo(from, to int) token {
	s.from, s.to, s.pos = from, to, to
	if from == to {
		return eofToken
	}
	return textToken
}

// cdata reads a CDATA section whose content begins at i. It reports whether the content is not
// empty.
func (s *scanner) cdata(i int) bool {
	s.from, s.to, s.pos = i, len(s.doc), len(s.doc)
	if n := bytes.Index(s.doc[i:], []byte("]]>")); n >= 0 {
		s.to, s.pos = i+n, i+n+len("]]>")
	}
	s.literal = true
	return s.from < s.to
}

// after returns the offset after the next c, or the length of the page.
func (s *scanner) after(i int, c byte) int {
	n := bytes.IndexByte(s.doc[i:], c)
	if n < 0 {
		return len(s.doc)
	}
	return i + n + 1
}

// afterComment returns the offset after a comment whose content begins at i. The
// comment ends with --> or --!>, or with > or -> directly at its beginning.
func (s *scanner) afterComment(i int) int {
	doc := s.doc
	dashes := i
	for dashes < len(doc) && doc[dashes] == '-' {
		dashes++
	}
	if dashes < len(doc) && doc[dashes] == '>' {
		return dashes + 1
	}
	for {
		n := bytes.Index(doc[i:], []byte("--"))
		if n < 0 {
			return len(doc)
		}
		i += n + 2
		for i < len(doc) && doc[i] == '-' {
			i++
		}
		end := i
		if end < len(doc) && doc[end] == '!' {
			end++
		}
		if end < len(doc) && doc[end] == '>' {
			return end + 1
		}
	}
}

// readTag reads a start tag or an end tag from its name on. If the tag does not end, the page ends
// before it.
func (s *scanner) readTag(name int, kind token) token {
	if !s.tagEnds(name) {
		return s.textUpTo(len(s.doc), len(s.doc))
	}
	if kind == startTagToken && s.tag.class&raw != 0 && !(s.xml && s.selfClosing) {
		s.rawElement = s.tag
	}
	return kind
}

// tagEnds reads a tag from its name on, and reports whether it ends.
func (s *scanner) tagEnds(name int) bool {
	i := s.tagName(name)
	s.selfClosing = false
	if s.attributed {
		s.attributes, s.attributed = attributes{}, false
	}
	if i < len(s.doc) && s.doc[i] == '>' {
		s.pos = i + 1
		return true
	}
	s.attributed = true
	return s.readAttributes(i)
}

// tagName reads the name of a tag and returns the offset after it.
func (s *scanner) tagName(i int) int {
	doc, start := s.doc, i
	key := uint64(0)
	for i < len(doc) {
		c := doc[i]
		kind := tagBytes[c]
		if kind&(tagSpace|tagEnd) != 0 {
			break
		}
		if kind&letter != 0 {
			c |= 0x20
		}
		key = nextKey(key, c)
		i++
	}
	s.tag = elementOf(key, doc[start:i])
	return i
}

// readAttributes reads the attributes of a tag from i on, and reports whether the tag ends.
func (s *scanner) readAttributes(i int) bool {
	doc := s.doc
	for {
		for i < len(doc) && tagBytes[doc[i]]&tagSpace != 0 {
			i++
		}
		if i >= len(doc) {
			return false
		}
		if doc[i] == '>' {
			s.pos = i + 1
			return true
		}
		key := i
		if doc[i] == '=' {
			i++
		}
		for i < len(doc) && tagBytes[doc[i]]&(tagSpace|tagEnd|tagEqual) == 0 {
			i++
		}
		keyEnd := i
		for i < len(doc) && tagBytes[doc[i]]&tagSpace != 0 {
			i++
		}
		if i >= len(doc) {
			return false
		}
		value, valueEnd := i, i
		switch doc[i] {
		case '/':
			i++
			s.selfClosing = i < len(doc) && doc[i] == '>'
		case '=':
			i++
			for i < len(doc) && tagBytes[doc[i]]&tagSpace != 0 {
				i++
			}
			if i >= len(doc) {
				return false
			}
			switch quote := doc[i]; quote {
			case '>':
				value, valueEnd = i, i
			case '"', '\'':
				value = i + 1
				n := bytes.IndexByte(doc[value:], quote)
				if n < 0 {
					return false
				}
				valueEnd = value + n
				i = valueEnd + 1
			default:
				value = i
				for i < len(doc) && doc[i] != '>' && tagBytes[doc[i]]&tagSpace == 0 {
					i++
				}
				valueEnd = i
			}
		}
		s.attributes.note(doc[key:keyEnd], doc[value:valueEnd:valueEnd])
	}
}

// note records an attribute if the extractor uses it.
func (a *attributes) note(key, value []byte) {
	switch len(key) {
	case 2:
		if key[0]|0x20 == 'i' && key[1]|0x20 == 'd' && a.id == nil {
			a.id = value
		}
	case 4:
		if a.role == nil && isName(key, "role") {
			a.role, a.mayHide = value, true
		} else if a.href == nil && isName(key, "href") {
			a.href = value
		} else if isName(key, "open") {
			a.open = true
		}
	case 5:
		if a.class == nil && isName(key, "class") {
			a.class = value
		} else if a.style == nil && isName(key, "style") {
			a.style, a.mayHide = value, true
		}
	case 6:
		if isName(key, "hidden") {
			a.hidden, a.mayHide = true, true
		} else if a.srcdoc == nil && isName(key, "srcdoc") {
			a.srcdoc = value
		}
	case 14:
		if isName(key, "shadowrootmode") {
			a.shadow = a.shadow || bytes.EqualFold(value, []byte("open")) ||
				bytes.EqualFold(value, []byte("closed"))
		}
	}
}

// isName reports whether b begins with a name, in upper or lower case. name is in lower case, and b
// is at least as long.
func isName(b []byte, name string) bool {
	for i := range len(name) {
		if b[i]|0x20 != name[i] {
			return false
		}
	}
	return true
}

// rawContent reads the content of a raw element, up to its end tag or the end of the page. It
// reports whether the content is not empty.
func (s *scanner) rawContent() bool {
	e := s.rawElement
	s.rawElement = element{}
	s.literal, s.rawText = e.class&references == 0, true
	end := len(s.doc)
	switch e.name {
	case "plaintext":
	case "script":
		end = s.scriptEnd(s.pos)
	default:
		for i := s.pos; ; {
			n := bytes.IndexByte(s.doc[i:], '<')
			if n < 0 {
				break
			}
			i += n
			if s.endsRaw(i, e.name) {
				end = i
				break
			}
			i++
		}
	}
	s.from, s.to, s.pos = s.pos, end, end
	return s.from < s.to
}

// endsRaw reports whether an end tag with that name begins at i.
func (s *scanner) endsRaw(i int, name string) bool {
	rest := s.doc[i:]
	return len(rest) > 2+len(name) && rest[1] == '/' &&
		tagBytes[rest[2+len(name)]]&(tagSpace|tagEnd) != 0 && isName(rest[2:], name)
}

// scriptEnd returns the offset of the tag that ends a script whose content begins at
// i. A script element may be nested in an escaped part, from <!-- to -->. Then the
// first end tag ends the nested element.
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

// escapedScript reads an escaped part whose content begins at i, after <!--. It returns
// the offset at which the script ends and true, or the offset at which the escaped part
// ends and false.
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

// scriptPrefix returns the length of the common prefix of b and "script".
func scriptPrefix(b []byte) int {
	const name = "script"
	n := 0
	for n < len(name) && n < len(b) && b[n]|0x20 == name[n] {
		n++
	}
	return n
}
