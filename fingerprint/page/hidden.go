package page

import (
	"bytes"

	"golang.org/x/net/html"
)

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
