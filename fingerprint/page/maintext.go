package page

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
	// name for it, or any.
	namedShare, anyShare = 4, 9
	// Less than minMain bytes, or one byte in maxVisible of the visible text, is
	// no main text.
	minMain, maxVisible = 200, 20
)

// main gives the main text: see [Main]. It leaves out the elements that frame
// it, goes to the innermost element that has nearly all prose of what is left,
// and takes its lines but those that are mostly links.
func (o *outline) main(text []byte) []byte {
	o.weigh()
	framed := o.frame()
	root := o.root()
	var b []byte
	for i := range o.nodes {
		framed[i] = framed[i] || int32(i) != root && (i == 0 || int32(i) < root || framed[o.nodes[i].parent])
	}
	for _, l := range o.lines {
		if framed[l.node] || l.linked*2 > l.to-l.from && !headings[l.kind] {
			continue
		}
		if len(b) > 0 {
			b = append(b, '\n')
		}
		b = append(b, text[l.from:l.to]...)
	}
	if len(b) < minMain || len(b) < len(text)/maxVisible {
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
func (o *outline) frame() (framed []bool) {
	total := o.nodes[0].prose
	framed = make([]bool, len(o.nodes))
	inMain := make([]bool, len(o.nodes)) // where a header is not the page's
	for i := 1; i < len(o.nodes); i++ {
		n := &o.nodes[i]
		inMain[i] = inMain[n.parent] || n.hint&(mainPart|article) != 0
		frames := n.hint&(framing|structural|topical|control) != 0 || n.hint&pageHeader != 0 && !inMain[i]
		framed[i] = framed[n.parent] || frames && n.prose*maxFrame <= total
	}
	for i := range o.lines {
		if l := &o.lines[i]; !framed[l.node] {
			o.nodes[l.node].content += l.prose()
		}
	}
	for i := len(o.nodes) - 1; i > 0; i-- {
		o.nodes[o.nodes[i].parent].content += o.nodes[i].content
	}
	return framed
}

// root is the node that holds the main text.
func (o *outline) root() int32 {
	root := int32(0)
	for i := int32(1); int(i) < len(o.nodes); i++ {
		n := &o.nodes[i]
		share := anyShare
		if n.hint&(mainPart|article) != 0 {
			share = namedShare
		}
		if n.content > 0 && n.content*10 >= o.nodes[root].content*share && o.contains(root, i) {
			root = i
		}
	}
	return root
}

func (o *outline) contains(outer, i int32) bool {
	for i > outer {
		i = o.nodes[i].parent
	}
	return i == outer
}

var headings = func() (is [maxKinds]bool) {
	for i := range elements {
		if e := &elements[i]; e.class&heading != 0 {
			is[e.kind] = true
		}
	}
	return is
}()
