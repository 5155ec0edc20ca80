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
//
// A second reading takes what the first one left out where a page hides nearly
// all of its text, and from an element on that is left out and never ends, so
// that no unclosed tag loses a page. Script and style are never taken.
func extract(doc []byte, mode TextMode) *extractor {
	e := extractors.Get().(*extractor)
	e.run(doc, mode, len(doc)+1)
	if e.hidden >= max(minHidden, hiddenShare*len(e.out.text)) {
		e.run(doc, mode, 0)
	} else if e.skipped > 0 {
		e.run(doc, mode, e.skippedAt)
	}
	return e
}

// result is the text that was asked for, valid until the extractor is released.
func (e *extractor) result() []byte {
	if e.outlined {
		return e.outline.main(e.out.text, e.title)
	}
	return e.out.text
}

var extractors = sync.Pool{New: func() any { return new(extractor) }}

// kept bounds what a pooled extractor keeps of each kind of memory, in bytes.
const kept = 1 << 20

func (e *extractor) release() {
	if cap(e.out.text) > kept {
		e.out.text = nil
	}
	e.outline.shrink()
	extractors.Put(e)
}

// extractor reads the tokens of a page, and keeps a stack of those open elements
// that bear on its text: blocks, and what is left out.
//
// Elements end as the HTML standard has it: an end tag ends the innermost open
// element of its name and all in it, but nothing outside of the table cell,
// caption, template or foreignObject that it is in, unless it is a table's;
// start tags end what endedBy says, up to the list or table around; body and html
// end with the page. Inline elements have no part in that, but for the one that is
// left out.
type extractor struct {
	out       textWriter
	title     string
	titled    bool    // a title was seen
	outline   outline // of the text
	outlined  bool    // outline is used
	shownFrom int     // elements that begin here or later are not hidden
	hidden    int     // bytes of text left out for being hidden or navigation

	stack     []openElement
	innermost [maxKinds]int32 // by kind: the place of the innermost open element on the stack, from 1; or 0
	context
	skipped    int32  // the place of the outermost element that is left out, or 0
	skippedKey uint64 // what tells its name
	skippedAt  int    // offset behind its start tag
}

// context is what changes with the open elements, and is as it was when they end.
type context struct {
	container int32 // the place of the innermost one, or 0
	scope     int32 // the same
	node      int32 // of the outline
	deep      int32 // open elements beyond maxDepth
}

type openElement struct {
	class class
	kind  uint8
	outer int32   // the innermost one of this kind when it began
	was   context // the same
}

// maxDepth bounds the memory that nested elements cost. Browsers have the same
// limit.
const maxDepth = 512

// run reads the page. Elements that begin at shownFrom or later are not hidden.
func (e *extractor) run(doc []byte, mode TextMode, shownFrom int) {
	*e = extractor{out: textWriter{text: e.out.text[:0]}, stack: e.stack[:0], outline: e.outline, outlined: mode&^URLs == Main, shownFrom: shownFrom}
	e.out.text = slices.Grow(e.out.text, len(doc)) // few pages have more text than bytes
	if e.outlined {
		e.outline.begin()
	}
	s := scanner{doc: doc}
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
}

func (e *extractor) text(s *scanner) {
	switch {
	case s.rawText && s.tag.class&left != 0:
		if s.tag.name == "title" && !e.titled && e.skipped == 0 {
			var title textWriter
			title.whole(s)
			e.title, e.titled = string(title.text), true
		}
	case e.skipped > 0:
		if e.stack[e.skipped-1].class&left == 0 {
			e.hidden += len(bytes.TrimSpace(s.doc[s.from:s.to]))
		}
	case e.outlined:
		from, begins := len(e.out.text), len(e.out.text) == 0 || e.out.gap == '\n'
		e.out.whole(s)
		e.outline.text(from, len(e.out.text), begins, e.node, e.headingLevel())
	default:
		e.out.whole(s)
	}
}

// inside says whether the innermost open element is of a class.
func (e *extractor) inside(c class) bool {
	return len(e.stack) > 0 && e.stack[len(e.stack)-1].class&c != 0
}

// headingLevel is the level of the heading that the text is in, or 0.
func (e *extractor) headingLevel() uint8 {
	if !e.inside(heading) {
		return 0
	}
	return e.stack[len(e.stack)-1].kind - h1Kind + 1
}

func (e *extractor) startTag(s *scanner) {
	tag := &s.tag
	if e.inside(foreign) {
		if tag.class&breakout == 0 {
			s.rawElement = element{} // no element's content is raw in an svg element
			if tag.class&(foreign|integration) != 0 && !s.selfClosing {
				e.open(s)
			}
			return
		}
		for e.inside(foreign) {
			e.close(int32(len(e.stack)))
		}
	}
	for _, kind := range impliedEnds[tag.kind] {
		if at := e.innermost[kind]; at > e.container {
			e.close(at)
		}
	}
	if e.skipped == 0 {
		if tag.class&block != 0 {
			e.out.newline()
		}
		if tag.name == "a" {
			e.outline.link = !withinPage(s.attributes.href)
		}
	}
	if tag.class&void != 0 || tag.class&left != 0 && tag.class&raw != 0 {
		return
	}
	if e.skipped == 0 && e.leavesOut(s) {
		e.skipped, e.skippedKey, e.skippedAt = int32(len(e.stack)+1), tag.key, s.pos
		e.open(s)
	} else if tag.kind > 0 && tag.class&(foreign|integration) == 0 || e.skipped > 0 && tag.key == e.skippedKey {
		e.open(s)
	}
}

// leavesOut says whether the element that begins is left out of the text.
func (e *extractor) leavesOut(s *scanner) bool {
	switch tag := &s.tag; {
	case tag.class&foreign != 0:
		return !s.selfClosing && s.pos != e.shownFrom
	case s.pos >= e.shownFrom || tag.class&shown != 0:
		return false
	default:
		return tag.class&left != 0 || hidden(s)
	}
}

// open puts the element that begins on the stack.
func (e *extractor) open(s *scanner) {
	tag := &s.tag
	if len(e.stack) >= maxDepth && int(e.skipped) != len(e.stack)+1 {
		e.deep++
		return
	}
	e.stack = append(e.stack, openElement{tag.class, tag.kind, e.innermost[tag.kind], e.context})
	at := int32(len(e.stack))
	e.innermost[tag.kind], e.deep = at, 0
	if tag.class&container != 0 {
		e.container = at
	}
	if tag.class&scope != 0 {
		e.scope = at
	}
	if e.outlined && e.skipped == 0 {
		e.node = e.outline.open(e.node, tag, &s.attributes)
	}
}

func (e *extractor) endTag(tag *element) {
	switch {
	case tag.kind == 0 && tag.key != e.skippedKey, tag.class&(void|shown) != 0:
	case e.deep > 0:
		e.deep--
	default:
		limit := e.scope
		if tag.class&tabular != 0 {
			limit = max(e.innermost[tableKind], e.innermost[templateKind])
		}
		if at := e.innermost[tag.kind]; at > 0 && at >= limit {
			e.close(at)
		}
	}
	if e.skipped == 0 {
		if tag.class&block != 0 {
			e.out.newline()
		}
		if tag.name == "a" {
			e.outline.link = false
		}
	}
}

// close ends the element at that place on the stack, and all in it.
func (e *extractor) close(at int32) {
	for int32(len(e.stack)) >= at {
		top := &e.stack[len(e.stack)-1]
		e.stack = e.stack[:len(e.stack)-1]
		if e.node != top.was.node {
			e.outline.forget(e.node)
		}
		e.innermost[top.kind], e.context = top.outer, top.was
	}
	if e.skipped >= at {
		e.skipped, e.skippedKey = 0, 0
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
