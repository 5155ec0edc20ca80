package page

import "bytes"

// The parameters of the search for the main text. Line breaks, link density and the share of an
// element in the page's prose are more reliable than names. Therefore, an element with a large part
// of the page is not left out because of its name.
const (
	// minProse is the length in bytes from which a line without many links counts as prose.
	minProse = 60
	// An element that frames the main text by its name is left out if it has at most 1/maxFrame of
	// the page's prose.
	maxFrame = 3
	// An element with a name for the main text needs at least namedShare tenths of the prose to be
	// the main text. An element with another name needs anyShare tenths, and half of all text
	// outside of links. Otherwise the notes below many short lines could be the main text.
	namedShare, anyShare = 4, 9
	// A main text has more than minMain bytes and at least 1/maxVisible of the bytes of
	// the visible text.
	minMain, maxVisible = 200, 20
)

// outline has the lines of a page and the elements around them, from which main selects the main
// text.
type outline struct {
	nodes []node // a parent precedes its children; the first node is the page
	lines []line
	link  bool // inside an a element

	result []byte // the main text
}

// node is an element that may be part of a page's frame.
type node struct {
	parent int32
	root   int32 // set by root: the last candidate that contains this node
	hint   hint
	held   bool // nodes that follow later may be children of this node
	frame  bool // the node is part of the frame
	inMain bool // the node is in a main or article element, so a header in it is not the page's

	prose   int // bytes of prose in the node
	content int // bytes of prose in the node outside of the frame
	text    int // bytes of text in the node outside of the frame and of links
}

// line is a line of the text.
type line struct {
	from, to int
	linked   int // bytes inside links
	node     int32
	heading  uint8 // its level, or 0
}

// begin removes all nodes except the page itself, and all lines.
func (o *outline) begin() {
	*o = outline{nodes: append(o.nodes[:0], node{}), lines: o.lines[:0], result: o.result[:0]}
}

// shrink frees buffers that an unusual page made large.
func (o *outline) shrink() {
	if cap(o.nodes) > kept/64 || cap(o.lines) > kept/64 || cap(o.result) > kept {
		*o = outline{}
	}
}

// open returns the node of an element that begins: a new node, or the node around it.
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
	if last := len(o.nodes) - 1; int(n) == last && !o.nodes[n].held &&
		(len(o.lines) == 0 || o.lines[len(o.lines)-1].node < n) {
		o.nodes = o.nodes[:last]
	}
}

// truncate removes the lines after the first size bytes of the text, and all nodes
// after the first ones.
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

// text records text that was written from one offset to another. The text begins a
// line if begins is true.
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

// main returns the main text: see [Main]. It leaves out the elements of the frame, and finds the
// innermost element that has nearly all of the remaining prose. It returns the lines of that
// element, except lines that are mostly links. The title and the first h1 element outside of the
// frame precede these lines, since many pages of one template differ in little else.
func (o *outline) main(text []byte, title string) []byte {
	o.weigh()
	o.frame()
	root := o.root()
	b, size, topped := append(o.result[:0], title...), 0, false
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
	o.result = b
	if size <= minMain || size < len(text)/maxVisible {
		return text
	}
	return b
}

// prose returns the number of bytes of running text in a line.
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

// frame marks the nodes that frame the main text, and adds up the prose of all other
// nodes.
func (o *outline) frame() {
	for i := 1; i < len(o.nodes); i++ {
		n := &o.nodes[i]
		parent := &o.nodes[n.parent]
		n.inMain = parent.inMain || n.hint&(mainPart|article) != 0
		frames := n.hint&(framing|structural|topical|control) != 0 ||
			n.hint&pageHeader != 0 && !n.inMain
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

// root returns the node of the main text. It sets the field root of all nodes in this node.
func (o *outline) root() int32 {
	root := int32(0)
	for i := int32(1); int(i) < len(o.nodes); i++ {
		n, around := &o.nodes[i], &o.nodes[root]
		if n.root = o.nodes[n.parent].root; n.root != root {
			continue
		}
		named := n.hint&(mainPart|article) != 0 && n.content*10 >= around.content*namedShare
		if n.content > 0 && n.hint&framing == 0 && (named ||
			n.content*10 >= around.content*anyShare && n.text*2 >= around.text) {
			root, n.root = i, i
		}
	}
	return root
}

// withinPage reports whether a link seems to lead to a place in the page itself, as in a table of
// contents: its address has a fragment, or it has no address.
func withinPage(href []byte) bool {
	at := bytes.IndexByte(href, '#')
	return at >= 0 && at+1 < len(href) && tagBytes[href[at+1]]&letter != 0 || href == nil
}
