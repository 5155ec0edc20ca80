package page

import "bytes"

// outline is what the choice of the main text needs of a page: its lines, and
// the block elements around them.
type outline struct {
	nodes []node // a parent is before its children; the first is the page
	lines []line
	stack []openElement
	deep  int             // open elements beyond maxDepth
	last  [maxKinds]int32 // by kind of element: the place of the innermost open one on the stack, from 1
	list  int32           // the same for containers
	table int32           // the same for what tables are made of
	link  bool            // inside an a element
}

// node is a block element that may be part of a page's frame.
type node struct {
	parent int32
	hint   hint
	// Bytes of prose in it, and of what is left of that without the frame.
	prose, content int
}

// line is a line of the text.
type line struct {
	from, to int
	linked   int // bytes inside links
	node     int32
	kind     uint8 // of the innermost block element
}

type openElement struct {
	class             class
	kind              uint8
	node              int32
	last, list, table int32 // what the outline held
}

// maxDepth bounds the time and memory that nested elements cost.
const maxDepth = 512

// begin empties the outline but for the page itself.
func (o *outline) begin() {
	*o = outline{nodes: append(o.nodes[:0], node{}), lines: o.lines[:0], stack: o.stack[:0]}
}

// shrink lets go of what an unusual page made large.
func (o *outline) shrink() {
	if cap(o.nodes) > kept/64 || cap(o.lines) > kept/64 {
		*o = outline{}
	}
}

// inside is the innermost open node, and the kind of the innermost element.
func (o *outline) inside() (int32, uint8) {
	if len(o.stack) == 0 {
		return 0, 0
	}
	top := &o.stack[len(o.stack)-1]
	return top.node, top.kind
}

// text takes note of text that was written from one place to another, the first
// of a line or not.
func (o *outline) text(from, to int, begins bool) {
	if from == to {
		return
	}
	if begins {
		if from > 0 {
			from++ // the line break
		}
		l := line{from: from}
		l.node, l.kind = o.inside()
		o.lines = append(o.lines, l)
	}
	l := &o.lines[len(o.lines)-1]
	l.to = to
	if o.link {
		l.linked += to - from
	}
}

func (o *outline) startTag(s *scanner) {
	tag := &s.tag
	if tag.name == "a" {
		o.link = !withinPage(s.attributes.href)
	}
	if tag.class&block == 0 || tag.class&void != 0 {
		return
	}
	for _, kind := range impliedEnds[tag.kind] {
		if at := o.last[kind]; at > o.list {
			o.close(at)
		}
	}
	if len(o.stack) == maxDepth {
		o.deep++
		return
	}
	inside, _ := o.inside()
	if h := hintsOf(tag, &s.attributes); h != 0 || tag.class&(optional|heading) == 0 {
		o.nodes = append(o.nodes, node{parent: inside, hint: h})
		inside = int32(len(o.nodes) - 1)
	}
	o.stack = append(o.stack, openElement{tag.class, tag.kind, inside, o.last[tag.kind], o.list, o.table})
	at := int32(len(o.stack))
	o.last[tag.kind] = at
	if tag.class&container != 0 {
		o.list = at
	}
	if tag.class&tabular != 0 {
		o.table = at
	}
}

func (o *outline) endTag(tag *element) {
	if tag.name == "a" {
		o.link = false
	}
	if tag.class&block == 0 || tag.class&void != 0 {
		return
	}
	if o.deep > 0 {
		o.deep--
		return
	}
	// Only parts of tables end what is outside their table cell.
	if at := o.last[tag.kind]; at > 0 && (at > o.table || tag.class&tabular != 0) {
		o.close(at)
	}
}

// close closes the element at that place, and all in it.
func (o *outline) close(at int32) {
	for int32(len(o.stack)) >= at {
		top := o.stack[len(o.stack)-1]
		o.stack = o.stack[:len(o.stack)-1]
		o.last[top.kind], o.list, o.table = top.last, top.list, top.table
		o.forget(top.node)
	}
}

// forget drops a node without text, so that empty elements take no memory.
func (o *outline) forget(n int32) {
	last := int32(len(o.nodes) - 1)
	inside, _ := o.inside()
	if n == last && n != inside && n > 0 && (len(o.lines) == 0 || o.lines[len(o.lines)-1].node < n) {
		o.nodes = o.nodes[:last]
	}
}

// withinPage says whether a link leads to a place in the page itself, as in a
// table of contents, for all that can be seen: its address has a fragment.
func withinPage(href []byte) bool {
	at := bytes.IndexByte(href, '#')
	return at >= 0 && at+1 < len(href) && tagBytes[href[at+1]]&letter != 0 || href == nil
}
