package page

import (
	"bytes"

	"golang.org/x/net/html"
)

// part is an open element whose text may not be text of the page: an element that the page hides,
// navigation, or a document within the page. Its text is written like any other text. When the
// element ends, endPart drops the text if the element is a menu or a notice.
type part struct {
	place    int32 // of the element on the stack
	noscript bool
	nav      bool
	consent  bool // its name marks a consent dialog
	from     int  // length of the text before the part
	gap      byte // gap before the part
	nodes    int  // number of nodes of the outline before the part
	counts        // before the part
}

// counts has figures about the page up to the current token.
type counts struct {
	linked   int // bytes of text in links, buttons and selects, within parts
	articles int // start tags of main and article elements
	buttons  int // start tags of buttons
}

// add counts the start tag of an element.
func (c *counts) add(tag *element) {
	switch {
	case tag.hint&mainPart != 0:
		c.articles++
	case tag.kind == buttonKind:
		c.buttons++
	}
}

// isPart reports whether the element that begins with the current tag is a part.
func (e *extractor) isPart(s *scanner) bool {
	tag := &s.tag
	switch {
	case e.skipped || s.pos >= e.shownFrom || tag.class&shown != 0 || len(e.stack) >= maxDepth ||
		tag.kind == 0 && e.inlineKey != 0:
		return false
	case hides(s):
		return !e.isStreamed(s)
	}
	return len(e.parts) > 0 && !e.parts[len(e.parts)-1].nav && tag.class&(block|minor) == block &&
		isConsent(&s.attributes)
}

// hides reports whether the current tag begins navigation, or an element that is not shown before a
// script runs.
func hides(s *scanner) bool {
	a := &s.attributes
	return a.hidden || s.tag.name == "nav" || string(a.role) == "navigation" ||
		a.style != nil && displayNone(a.style) || s.tag.name == "dialog" && !a.open
}

// isConsent reports whether the class or id of an element names a consent dialog.
func isConsent(a *attributes) bool { return (nameHint(a.class)|nameHint(a.id))&consent != 0 }

// beginPart begins a part. The caller must push its element next.
func (e *extractor) beginPart(a *attributes, noscript bool) {
	e.parts = append(e.parts, part{
		place: int32(len(e.stack) + 1), noscript: noscript, consent: isConsent(a),
		from: len(e.out.text), gap: e.out.gap, nodes: len(e.outline.nodes), counts: e.counts,
	})
}

// endPart ends the innermost part, and drops its text if this is not text of the page.
func (e *extractor) endPart() {
	p := &e.parts[len(e.parts)-1]
	e.parts = e.parts[:len(e.parts)-1]
	text := e.out.text[p.from:]
	if len(text) == 0 || !p.drops(text, e.counts) {
		if e.outlined && int(e.node) == p.nodes {
			e.outline.nodes[e.node].hint &^= framing | control // it has text of the page
		}
		return
	}
	e.dropped = true
	e.out.text, e.out.gap = e.out.text[:p.from], p.gap
	e.counts.linked = p.linked
	if e.outlined {
		e.outline.truncate(p.from, p.nodes)
	}
}

const (
	// maxConsent is the length in bytes of the longest text that is dropped because its element is
	// named as a consent dialog.
	maxConsent = 16 << 10
	// maxNotice is the length in bytes of the longest text that is dropped because of its words.
	maxNotice = 2000
	// cookieShare is the maximum number of bytes per mention of cookies in a notice about them.
	cookieShare = 400
)

// drops reports whether the text of a part is dropped: if more than half of it is in links and
// controls, or in short lines of navigation, or if it asks for consent to cookies or for
// JavaScript. The text of an element that contains a main or an article element is never dropped.
func (p *part) drops(text []byte, now counts) bool {
	switch {
	case now.articles > p.articles:
		return false
	case 2*(now.linked-p.linked) > len(text), p.nav && 2*proseOf(text) < len(text):
		return true
	case p.consent:
		return len(text) <= maxConsent
	case len(text) > maxNotice:
		return false
	case p.noscript && (bytes.Contains(text, []byte("avaScript")) ||
		bytes.Contains(text, []byte("avascript"))):
		return true
	}
	return now.buttons > p.buttons && bytes.Count(text, []byte("ookie"))*cookieShare >= len(text)
}

// proseOf returns the number of bytes of text in lines of prose.
func proseOf(text []byte) (n int) {
	for line := range bytes.SplitSeq(text, []byte{'\n'}) {
		if len(line) >= minProse {
			n += len(line)
		}
	}
	return n
}

// fragment reads a document within the page as a part: the content of a noscript
// element, or of the srcdoc attribute of an iframe element.
func (e *extractor) fragment(s *scanner, noscript bool) {
	if e.fragments == maxFragments {
		return
	}
	at, shownFrom := int32(len(e.stack)+1), e.shownFrom
	e.beginPart(&attributes{}, noscript)
	e.push(&scanner{tag: element{class: container | scope, kind: templateKind}})
	e.fragments++
	if s.pos == 0 {
		e.shownFrom = len(s.doc) + 1 // offsets in s.doc are not offsets in the page
	}
	e.read(s)
	e.close(at)
	e.fragments, e.shownFrom = e.fragments-1, shownFrom
}

// noscript reads the content of a noscript element. In pages that were saved from a
// browser, it may be escaped.
func (e *extractor) noscript(s *scanner) {
	content := s.doc[s.from:s.to]
	if bytes.IndexByte(content, '<') < 0 && bytes.Contains(content, []byte("&lt;")) {
		e.fragment(&scanner{doc: []byte(html.UnescapeString(string(content)))}, true)
		return
	}
	e.fragment(&scanner{doc: s.doc[:s.to], pos: s.from, xml: s.xml}, true)
}

// maxFragments is the maximum depth of nested documents that are read.
const maxFragments = 4

// displayNone reports whether an inline style sets display to none. It does not recognize CSS
// escapes and comments.
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
