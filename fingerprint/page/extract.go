package page

import (
	"slices"
	"sync"

	"golang.org/x/net/html"
)

// extract reads a page. The caller must release the extractor.
//
// It reads the page a second time if all text is in parts that are dropped, or if an element that
// is left out never ends. Then it keeps the text of the whole page, or all text after the start tag
// of that element, except scripts and style sheets.
func extract(doc []byte, mode TextMode, xml bool) *extractor {
	e := extractors.Get().(*extractor)
	e.run(doc, mode, xml, len(doc)+1)
	if e.dropped && len(e.out.text) == 0 {
		e.run(doc, mode, xml, 0)
	} else if e.skipped {
		e.run(doc, mode, xml, e.skippedAt)
	}
	return e
}

// result returns the text that the mode selects. It is valid until the extractor is
// released.
func (e *extractor) result() []byte {
	if e.outlined {
		return e.outline.main(e.out.text, e.title)
	}
	return e.out.text
}

var extractors = sync.Pool{New: func() any { return new(extractor) }}

// kept bounds the memory of each kind that a pooled extractor keeps, in bytes.
const kept = 1 << 20

func (e *extractor) release() {
	if cap(e.out.text) > kept {
		e.out.text = nil
	}
	e.outline.shrink()
	extractors.Put(e)
}

// extractor reads the tokens of a page. It keeps a stack of the open elements that affect the text:
// blocks, parts, and elements that are left out.
//
// Elements end as the HTML standard specifies. An end tag ends the innermost open element of its
// name and every element in it. It ends nothing outside of the table cell, caption, template or
// foreignObject around it, unless it is the end tag of a table. A start tag ends the elements that
// endedBy lists, up to the list or table around it. The elements body and html end with the page.
// Inline elements are not on the stack, except for a part and the elements of its name in it.
type extractor struct {
	out       textWriter
	title     string
	titled    bool    // a title was seen
	outline   outline // of the text
	outlined  bool    // outline is used
	shownFrom int     // elements that begin at this offset or later are neither parts nor left out
	skippedAt int     // offset after the start tag of the innermost element that is left out

	parts     []part // the open parts, the innermost last
	dropped   bool   // a part was dropped
	inlineAt  int32  // the place of the inline element that is a part, or 0
	inlineKey uint64 // the key of this element, or 0
	fragments int    // open documents within the page
	streams
	counts counts

	// The place of an open element is its index on the stack plus 1. 0 is no element.
	stack     []openElement
	innermost [maxKinds]int32 // by kind: the place of the innermost open element
	context
}

// context is the state that changes with an element and is restored when the
// element ends.
type context struct {
	container int32 // the place of the innermost container, or 0
	scope     int32 // the place of the innermost scope, or 0
	node      int32 // of the outline
	deep      int32 // open elements beyond maxDepth
	skipped   bool  // in an element that is left out
	anchor    bool  // in an a element that is a link
}

type openElement struct {
	class class
	kind  uint8
	outer int32   // innermost[kind] before the element began
	was   context // the context before the element began
}

// maxDepth bounds the memory that nested elements cost. Browsers have the same
// limit.
const maxDepth = 512

// run reads the page. Elements that begin at shownFrom or later are neither parts
// nor left out.
func (e *extractor) run(doc []byte, mode TextMode, xml bool, shownFrom int) {
	*e = extractor{
		out: textWriter{text: e.out.text[:0]}, parts: e.parts[:0], stack: e.stack[:0],
		outline: e.outline, outlined: mode == Main, shownFrom: shownFrom,
	}
	e.out.text = slices.Grow(e.out.text, len(doc)) // few pages have more text than bytes
	if e.outlined {
		e.outline.begin()
	}
	e.read(&scanner{doc: doc, xml: xml})
}

// read reads a document: the page, or a document within it.
func (e *extractor) read(s *scanner) {
	for token := s.next(); token != eofToken; token = s.next() {
		switch token {
		case textToken:
			e.text(s)
		case startTagToken:
			e.startTag(s)
			if s.xml && s.selfClosing && !e.inside(foreign) {
				e.endTag(&s.tag)
			}
		case endTagToken:
			e.endTag(&s.tag)
		}
	}
}

func (e *extractor) text(s *scanner) {
	switch {
	case e.skipped:
	case s.rawText && s.tag.class&omitted != 0:
		switch s.tag.name {
		case "noscript":
			e.noscript(s)
		case "title":
			if !e.titled && len(e.parts) == 0 {
				var title textWriter
				title.whole(s)
				e.title, e.titled = string(title.text), true
			}
		}
	default:
		from, begins := len(e.out.text), len(e.out.text) == 0 || e.out.gap == '\n'
		e.out.whole(s)
		if len(e.parts) > 0 && (e.anchor || e.innermost[buttonKind]|e.innermost[selectKind] > 0) {
			e.counts.linked += len(e.out.text) - from
		}
		if e.outlined {
			e.outline.text(from, len(e.out.text), begins, e.node, e.headingLevel())
		}
	}
}

// inside reports whether the innermost open element is of a class.
func (e *extractor) inside(c class) bool {
	return len(e.stack) > 0 && e.stack[len(e.stack)-1].class&c != 0
}

// headingLevel returns the level of the innermost open element if it is a heading, or else 0.
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
			e.startForeign(s)
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
	if !e.skipped {
		if tag.class&block != 0 {
			e.out.newline()
		}
		if tag.name == "a" {
			e.anchor = s.attributes.href != nil
			e.outline.link = !withinPage(s.attributes.href)
		}
		if tag.hint&(mainPart|control) != 0 {
			e.counts.add(tag)
		}
	}
	switch {
	case tag.class&void != 0:
	case tag.class&omitted != 0 && tag.class&raw != 0:
		if s.attributes.srcdoc != nil && !e.skipped && tag.name == "iframe" {
			e.out.newline()
			e.fragment(&scanner{doc: []byte(html.UnescapeString(string(s.attributes.srcdoc)))},
				false)
			e.out.newline()
		}
	case tag.class&omitted != 0 && e.leavesOut(s):
		if tag.kind == templateKind && e.outlined {
			e.addPlace(s.attributes.id)
		}
		e.push(s)
		e.skipped, e.skippedAt = true, s.pos
	case (tag.hint&framing != 0 || s.attributed && s.attributes.mayHide || len(e.parts) > 0) &&
		e.isPart(s):
		e.beginPart(&s.attributes, false)
		e.parts[len(e.parts)-1].nav = tag.name == "nav" || string(s.attributes.role) == "navigation"
		e.push(s)
		if tag.kind == 0 {
			e.inlineAt, e.inlineKey = int32(len(e.stack)), tag.key
		}
	case tag.kind > 0 && tag.class&(foreign|integration) == 0 || tag.key == e.inlineKey:
		e.open(s)
	}
}

// startForeign reads a start tag in an svg element. Only the content of a
// foreignObject element is text of the page.
func (e *extractor) startForeign(s *scanner) {
	s.rawElement = element{} // in an svg element, no element has raw content
	if s.tag.class&(foreign|integration) != 0 && !s.selfClosing && e.open(s) &&
		s.tag.name == "foreignobject" {
		e.skipped = false
		e.out.newline()
	}
}

// leavesOut reports whether the element that begins with the current tag is left out.
func (e *extractor) leavesOut(s *scanner) bool {
	switch tag := &s.tag; {
	case e.skipped:
		return false
	case tag.class&foreign != 0:
		return !s.selfClosing && s.pos != e.shownFrom
	case tag.kind == templateKind && (s.attributes.shadow || e.isStreamed(s)):
		return false
	default:
		return s.pos < e.shownFrom
	}
}

// open puts the element that begins on the stack, unless the stack is full.
func (e *extractor) open(s *scanner) bool {
	if len(e.stack) >= maxDepth {
		e.deep++
		return false
	}
	e.push(s)
	return true
}

// push puts the element that begins on the stack.
func (e *extractor) push(s *scanner) {
	tag := &s.tag
	e.stack = append(e.stack, openElement{tag.class, tag.kind, e.innermost[tag.kind], e.context})
	at := int32(len(e.stack))
	e.innermost[tag.kind], e.deep = at, 0
	if tag.class&container != 0 {
		e.container = at
	}
	if tag.class&scope != 0 {
		e.scope = at
	}
	if e.outlined && !e.skipped {
		around := e.node
		if e.places != nil && e.isStreamed(s) {
			around = e.placeOf(s.attributes.id, around)
		}
		e.node = e.outline.open(around, tag, &s.attributes)
	}
}

func (e *extractor) endTag(tag *element) {
	skipped := e.skipped
	switch {
	case tag.kind == 0 && tag.key != e.inlineKey, tag.class&(void|shown) != 0:
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
	switch {
	case e.skipped != skipped && e.skipped: // the end of a foreignObject element
		e.out.newline()
	case !e.skipped:
		if tag.class&block != 0 {
			e.out.newline()
		}
		if tag.name == "a" {
			e.anchor, e.outline.link = false, false
		}
	}
}

// close ends the element at a place on the stack, and every element in it.
func (e *extractor) close(at int32) {
	for int32(len(e.stack)) >= at {
		if n := len(e.parts); n > 0 && int(e.parts[n-1].place) == len(e.stack) {
			e.endPart()
		}
		top := &e.stack[len(e.stack)-1]
		e.stack = e.stack[:len(e.stack)-1]
		if e.node != top.was.node {
			e.outline.forget(e.node)
		}
		e.innermost[top.kind], e.context = top.outer, top.was
	}
	if e.inlineAt >= at {
		e.inlineAt, e.inlineKey = 0, 0
	}
}
