package page

import "strings"

// main gives the main text: see [Main].
func (o *outline) main(text []byte) string {
	o.weigh()
	dropped := o.frame()
	root := o.root(dropped)
	var b strings.Builder
	within := make([]bool, len(o.nodes))
	for i, n := range o.nodes {
		within[i] = int32(i) == root || i > 0 && within[n.parent]
	}
	for _, l := range o.lines {
		if !within[l.node] || dropped[l.node] || l.linked*2 > l.to-l.from && !headings[l.kind] {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		b.Write(text[l.from:l.to])
	}
	if b.Len() < 200 || b.Len() < len(text)/20 {
		return string(text)
	}
	return b.String()
}

// prose is what a line has of running text.
func (l *line) prose() int {
	n := l.to - l.from
	if n < 60 || l.linked*3 > n {
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

// frame marks the nodes that frame the main text, and weighs what is left.
func (o *outline) frame() (dropped []bool) {
	total := o.nodes[0].prose
	dropped = make([]bool, len(o.nodes))
	inMain := make([]bool, len(o.nodes))
	for i := 1; i < len(o.nodes); i++ {
		n := &o.nodes[i]
		inMain[i] = inMain[n.parent] || n.hint&(mainPart|article) != 0
		drop := n.hint&(framing|structural|topical|control) != 0 || n.hint&pageHeader != 0 && !inMain[i]
		dropped[i] = dropped[n.parent] || drop && n.prose*3 <= total
	}
	for i := range o.nodes {
		o.nodes[i].content = 0
	}
	for i := range o.lines {
		l := &o.lines[i]
		if !dropped[l.node] {
			o.nodes[l.node].content += l.prose()
		}
	}
	for i := len(o.nodes) - 1; i > 0; i-- {
		o.nodes[o.nodes[i].parent].content += o.nodes[i].content
	}
	return dropped
}

// root is the node that holds the main text.
func (o *outline) root(dropped []bool) int32 {
	root := int32(0)
	for i := 1; i < len(o.nodes); i++ {
		n := &o.nodes[i]
		if n.parent == root && n.content*10 >= o.nodes[root].content*9 && n.content > 0 {
			root = int32(i)
		}
	}
	return root
}

var headings = func() (is [maxKinds]bool) {
	for i := range elements {
		if e := &elements[i]; e.class&heading != 0 {
			is[e.kind] = true
		}
	}
	return is
}()
