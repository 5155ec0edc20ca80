package page

import (
	"bytes"
	"slices"
	"sync"

	"golang.org/x/net/html"
)

// A page that hides more than hiddenShare times what it shows, and at least
// minHidden bytes, hides it only until a script shows it.
const (
	hiddenShare = 10
	minHidden   = 1000
)

// extract reads a page. The extractor is to be released.
func extract(doc []byte, mode TextMode) *extractor {
	e := extractors.Get().(*extractor)
	e.begin(doc, mode, true)
	for e.run() {
	}
	if e.hidden >= max(minHidden, hiddenShare*len(e.out.text)) {
		e.begin(doc, mode, false)
		for e.run() {
		}
	}
	return e
}

// result is the text that was asked for, valid until the extractor is released.
func (e *extractor) result() []byte {
	if e.outlined {
		return e.parts.main(e.out.text)
	}
	return e.out.text
}

var extractors = sync.Pool{New: func() any { return new(extractor) }}

// kept bounds what a pooled extractor keeps of each kind of memory, in bytes.
const kept = 1 << 20

func (e *extractor) begin(doc []byte, mode TextMode, hide bool) {
	*e = extractor{doc: doc, hide: hide, out: textWriter{text: e.out.text[:0]}, parts: e.parts, outlined: mode == Main}
	e.out.text = slices.Grow(e.out.text, len(doc)) // few pages have more text than bytes
	if e.outlined {
		e.parts.begin()
	}
}

func (e *extractor) release() {
	e.doc = nil
	if cap(e.out.text) > kept {
		e.out.text = nil
	}
	e.parts.shrink()
	extractors.Put(e)
}

// extractor reads the tokens once; where an element that is left out never
// ends, it goes back to that element's start tag, once, and from there takes
// everything but script and style. So no unclosed tag loses a page.
type extractor struct {
	doc      []byte
	start    int // offset in doc where this run begins
	hide     bool
	out      textWriter
	parts    outline // of the text
	outlined bool    // parts is used
	title    string
	titled   bool // a title was seen
	skip     region
	hidden   int // bytes of text left out for being hidden or navigation
}

// run reads tokens from start to the end; true asks for another run.
func (e *extractor) run() (again bool) {
	s := scanner{doc: e.doc, pos: e.start}
	for token := s.next(); token != endToken; token = s.next() {
		switch token {
		case textToken:
			e.text(&s)
		case startToken:
			e.startTag(&s)
		case stopToken:
			e.endTag(&s.tag)
		}
	}
	if !e.skip.open || !e.hide || e.skip.class&raw != 0 {
		return false
	}
	e.start, e.hide, e.skip = e.skip.after, false, region{}
	return true
}

func (e *extractor) text(s *scanner) {
	switch {
	case !e.skip.open && !e.outlined:
		e.out.whole(s)
	case !e.skip.open:
		from, begins := len(e.out.text), len(e.out.text) == 0 || e.out.gap == '\n'
		e.out.whole(s)
		e.parts.text(from, len(e.out.text), begins)
	case e.skip.name == "title" && !e.titled:
		var title textWriter
		title.whole(s)
		e.title, e.titled = string(title.text), true
	case e.skip.class&left == 0:
		e.hidden += len(bytes.TrimSpace(s.doc[s.from:s.to]))
	}
}

func (e *extractor) startTag(s *scanner) {
	tag := &s.tag
	if e.skip.open {
		if !e.skip.endsAtStart(tag, s.selfClosing) {
			if e.skip.class&foreign != 0 {
				s.notRaw()
			}
			return
		}
		e.skip = region{}
	}
	if tag.class&block != 0 {
		e.out.newline()
	}
	if e.outlined {
		e.parts.startTag(s)
	}
	switch {
	case tag.class&left != 0:
		if tag.class&foreign != 0 && s.selfClosing || tag.class&(raw|foreign) == 0 && !e.hide {
			return
		}
	case !e.hide || tag.class&shown != 0 || !hidden(s):
		return
	}
	e.skip = region{element: *tag, open: true, depth: 1, after: s.pos}
}

func (e *extractor) endTag(tag *element) {
	if e.skip.open {
		switch {
		case e.skip.closedBy(tag):
			e.skip = region{}
			e.leave(tag)
			return
		case !e.skip.endsAtEnd(tag):
			return
		}
		e.skip = region{}
	}
	e.leave(tag)
}

func (e *extractor) leave(tag *element) {
	if tag.class&block != 0 {
		e.out.newline()
	}
	if e.outlined {
		e.parts.endTag(tag)
	}
}

// region is the element, left out of the text, that the reader is inside of.
type region struct {
	element
	open  bool
	depth int // open elements of that name, itself included
	nest  int // open lists, tables and selects inside it; for svg, elements that hold HTML
	after int // offset behind its start tag
}

// endsAtStart sees a start tag inside the region and says whether it ends the
// region by implication, as <li> ends an open li.
func (r *region) endsAtStart(tag *element, selfClosing bool) bool {
	if r.class&raw != 0 {
		return false
	}
	if r.class&foreign != 0 {
		if r.nest == 0 && tag.class&breakout != 0 {
			return true
		}
		if tag.class&integration != 0 && !selfClosing {
			r.nest++
		}
	} else {
		if r.class&optional != 0 && r.nest == 0 && r.impliedBy(tag) {
			return true
		}
		if tag.class&container != 0 {
			r.nest++
		}
	}
	if tag.key == r.key && tag.class&void == 0 && (r.class&foreign == 0 || !selfClosing) {
		r.depth++
	}
	return false
}

// closedBy sees an end tag inside the region and says whether it is its own.
func (r *region) closedBy(tag *element) bool {
	if tag.key != r.key {
		return false
	}
	r.depth--
	return r.depth == 0
}

// endsAtEnd says whether another element's end tag ends the region: that of
// the list or table around it.
func (r *region) endsAtEnd(tag *element) bool {
	inner := container
	if r.class&foreign != 0 {
		inner = integration
	}
	if r.class&(optional|foreign) == 0 || tag.class&inner == 0 {
		return false
	}
	if r.nest > 0 {
		r.nest--
		return false
	}
	return r.class&foreign == 0
}

// impliedBy follows the rules of the HTML standard for tags that may be left
// out (section 13.1.2.4).
func (e *element) impliedBy(tag *element) bool {
	switch e.name {
	case "p":
		return tag.class&block != 0 && tag.name != "br"
	case "li":
		return tag.name == "li"
	case "dt", "dd":
		return tag.name == "dt" || tag.name == "dd"
	case "td", "th":
		return tag.name == "td" || tag.name == "th" || tag.name == "tr" || tag.name == "tbody" || tag.name == "tfoot"
	case "tr":
		return tag.name == "tr" || tag.name == "tbody" || tag.name == "tfoot"
	case "rp":
		return tag.name == "rp" || tag.name == "rt"
	default: // option, optgroup
		return tag.name == "optgroup" || tag.name == e.name
	}
}

// hidden says, by its start tag, whether an element is not shown, or is
// navigation.
func hidden(s *scanner) bool {
	a := &s.attributes
	return a.hidden || s.tag.name == "nav" || a.role != nil && string(a.role) == "navigation" || a.style != nil && displayNone(a.style) || s.tag.name == "dialog" && !a.open
}

// displayNone says whether an inline style sets display to none. It knows
// declarations, not CSS: no escapes, no comments.
func displayNone(style []byte) bool {
	if bytes.IndexByte(style, '&') >= 0 {
		style = []byte(html.UnescapeString(string(style)))
	}
	for declaration := range bytes.SplitSeq(style, []byte{';'}) {
		property, value, ok := bytes.Cut(declaration, []byte{':'})
		if !ok || !bytes.EqualFold(bytes.TrimSpace(property), []byte("display")) {
			continue
		}
		value, _, _ = bytes.Cut(value, []byte{'!'})
		if bytes.EqualFold(bytes.TrimSpace(value), []byte("none")) {
			return true
		}
	}
	return false
}
