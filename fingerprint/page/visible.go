package page

import (
	"bytes"
	"slices"
	"sync"
)

// visible gives the title and the text of a page that is valid UTF-8.
func visible(doc []byte) (title, text string) {
	e := extract(doc, Visible)
	defer e.release()
	return e.title, string(e.out.text)
}

// mainText gives the title and the main text of a page that is valid UTF-8.
func mainText(doc []byte) (title, text string) {
	e := extract(doc, Main)
	defer e.release()
	return e.title, e.parts.main(e.out.text)
}

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
