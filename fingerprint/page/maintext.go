package page

import "bytes"

// What the search for the main text goes by. Line breaks, link density and the
// share of an element in the page's prose tell more than names do, so no name
// leaves out an element that holds much of the page.
const (
	// minProse is how long a line must be, without its links, to count as prose.
	minProse = 60
	// maxFrame is the share of a page's prose, one in so many, up to which an
	// element is left out for what its name says.
	maxFrame = 3
	// An element with so many tenths of the prose holds the main text: one of a
	// name for it, or any that has half of all text that is no link, too, so that
	// the notes below many short lines do not stand for a page.
	namedShare, anyShare = 4, 9
	// Less than minMain bytes, or one byte in maxVisible of the visible text, is
	// no main text.
	minMain, maxVisible = 200, 20
)

// outline is what the choice of the main text needs of a page: its lines, and
// the elements around them.
type outline struct {
	nodes []node // a parent is before its children; the first is the page
	lines []line
	link  bool // inside an a element

	chosen []byte // the main text
}

// node is an element that may be part of a page's frame.
type node struct {
	parent int32
	root   int32 // the node that root chose before this node, if that contains this node
	hint   hint
	held   bool // nodes that follow later may be in it
	frame  bool // or in one
	inMain bool // where a header is not the page's
	// Bytes of prose in it, what is left of that without the frame, and all text
	// that is left but links.
	prose, content, text int
}

// line is a line of the text.
type line struct {
	from, to int
	linked   int // bytes inside links
	node     int32
	heading  uint8 // its level, or 0
}

// begin empties the outline but for the page itself.
func (o *outline) begin() {
	*o = outline{nodes: append(o.nodes[:0], node{}), lines: o.lines[:0], chosen: o.chosen[:0]}
}

// shrink lets go of what an unusual page made large.
func (o *outline) shrink() {
	if cap(o.nodes) > kept/64 || cap(o.lines) > kept/64 || cap(o.chosen) > kept {
		*o = outline{}
	}
}

// open gives the node of an element that begins: its own, or the one around it.
func (o *outline) open(around int32, tag *element, a *attributes) int32 {
	h := hintsOf(tag, a)
	if h == 0 && tag.class&minor != 0 {
		return around
	}
	o.nodes = append(o.nodes, node{parent: around, hint: h})
	return int32(len(o.nodes) - 1)
}

// forget drops a node without text, so that empty elements take no memory.
func (o *outline) forget(n int32) {
	if last := len(o.nodes) - 1; int(n) == last && !o.nodes[n].held && (len(o.lines) == 0 || o.lines[len(o.lines)-1].node < n) {
		o.nodes = o.nodes[:last]
	}
}

// truncate forgets the lines after the first size bytes of the text, and all but
// the first nodes.
func (o *outline) truncate(size, nodes int) {
	for len(o.lines) > 0 && o.lines[len(o.lines)-1].from >= size {
		o.lines = o.lines[:len(o.lines)-1]
	}
	if n := len(o.lines); n > 0 && o.lines[n-1].to > size {
		l := &o.lines[n-1]
		l.to, l.linked = size, min(l.linked, size-l.from)
	}
	o.nodes = o.nodes[:min(len(o.nodes), nodes)]
}

// text takes note of text that was written from one place to another, the first
// of a line or not.
func (o *outline) text(from, to int, begins bool, node int32, heading uint8) {
	if from == to {
		return
	}
	if begins {
		if from > 0 {
			from++ // the line break
		}
		o.lines = append(o.lines, line{from: from, node: node, heading: heading})
	}
	l := &o.lines[len(o.lines)-1]
	l.to = to
	if o.link {
		l.linked += to - from
	}
}

// main gives the main text: see [Main]. It leaves out the elements that frame
// it, goes to the innermost element that has nearly all prose of what is left,
// and takes its lines but those that are mostly links. Before them come the title
// and the first h1 that is no frame, since little else tells many pages of one
// template apart.
func (o *outline) main(text []byte, title string) []byte {
	o.weigh()
	o.frame()
	root := o.root()
	b, size, topped := append(o.chosen[:0], title...), 0, false
	for _, l := range o.lines {
		inRoot, top := o.nodes[l.node].root == root, l.heading == 1 && !topped
		if o.nodes[l.node].frame || !inRoot && !top || l.linked*2 > l.to-l.from && l.heading == 0 {
			continue
		}
		topped = topped || top
		if len(b) > 0 {
			b = append(b, '\n')
		}
		b = append(b, text[l.from:l.to]...)
		if inRoot {
			size += l.to - l.from + 1
		}
	}
	o.chosen = b
	if size <= minMain || size < len(text)/maxVisible {
		return text
	}
	return b
}

// prose is what a line has of running text.
func (l *line) prose() int {
	n := l.to - l.from
	if n < minProse || l.linked*3 > n {
		return 0
	}
	return n - l.linked
}

// weigh adds up the prose in each node.
func (o *outline) weigh() {
	for i := range o.lines {
		l := &o.lines[i]
		o.nodes[l.node].prose += l.prose()
	}
	for i := len(o.nodes) - 1; i > 0; i-- {
		o.nodes[o.nodes[i].parent].prose += o.nodes[i].prose
	}
}

// frame marks the nodes that frame the main text, and adds up the prose of the
// others.
func (o *outline) frame() {
	for i := 1; i < len(o.nodes); i++ {
		n := &o.nodes[i]
		parent := &o.nodes[n.parent]
		n.inMain = parent.inMain || n.hint&(mainPart|article) != 0
		frames := n.hint&(framing|structural|topical|control) != 0 || n.hint&pageHeader != 0 && !n.inMain
		n.frame = parent.frame || frames && n.prose*maxFrame <= o.nodes[0].prose
	}
	for i := range o.lines {
		if l := &o.lines[i]; !o.nodes[l.node].frame {
			o.nodes[l.node].content += l.prose()
			o.nodes[l.node].text += l.to - l.from - l.linked
		}
	}
	for i := len(o.nodes) - 1; i > 0; i-- {
		n := &o.nodes[i]
		o.nodes[n.parent].content += n.content
		o.nodes[n.parent].text += n.text
	}
}

// root is the node that holds the main text. The field root of all nodes in it is
// the same node.
func (o *outline) root() int32 {
	root := int32(0)
	for i := int32(1); int(i) < len(o.nodes); i++ {
		n, around := &o.nodes[i], &o.nodes[root]
		if n.root = o.nodes[n.parent].root; n.root != root {
			continue
		}
		named := n.hint&(mainPart|article) != 0 && n.content*10 >= around.content*namedShare
		if n.content > 0 && n.hint&framing == 0 && (named || n.content*10 >= around.content*anyShare && n.text*2 >= around.text) {
			root, n.root = i, i
		}
	}
	return root
}

// withinPage says whether a link leads to a place in the page itself, as in a
// table of contents, for all that can be seen: its address has a fragment.
func withinPage(href []byte) bool {
	at := bytes.IndexByte(href, '#')
	return at >= 0 && at+1 < len(href) && tagBytes[href[at+1]]&letter != 0 || href == nil
}
