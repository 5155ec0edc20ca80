package page

// visible gives the title and the text of a page that is valid UTF-8.
func visible(doc []byte) (title, text string) {
	e := extractor{doc: doc, hide: true}
	for e.run() {
	}
	return e.title, string(e.out.text)
}

// mainText gives the main text of a page, or the visible text if there is too
// little of it.
func mainText(doc []byte, visible string) string {
	e := extractor{doc: doc, hide: true, main: true}
	for e.run() {
	}
	if text := e.out.text; len(text) > len(visible)/8 {
		return string(text)
	}
	return visible
}

// extractor reads the tokens once; where an element that is left out never
// ends, it goes back to that element's start tag, once, and from there takes
// everything but script and style. So no unclosed tag loses a page.
type extractor struct {
	doc    []byte
	start  int // offset in doc where this run begins
	hide   bool
	main   bool // leave out what frames the main text
	out    textWriter
	title  string
	titled bool // a title was seen
	skip   region
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
			e.endTag(s.tag)
		}
	}
	if !e.skip.open || e.skip.class&raw != 0 {
		return false
	}
	e.start, e.hide, e.skip = e.skip.after, false, region{}
	return true
}

func (e *extractor) text(s *scanner) {
	switch {
	case !e.skip.open:
		e.out.whole(s)
	case e.skip.name == "title" && !e.titled:
		var title textWriter
		title.whole(s)
		e.title, e.titled = string(title.text), true
	}
}

func (e *extractor) startTag(s *scanner) {
	tag := s.tag
	if e.skip.open {
		if !e.skip.endsAtStart(tag) {
			return
		}
		e.skip = region{}
	}
	if tag.class&block != 0 {
		e.out.newline()
	}
	switch {
	case e.main && e.hide && tag.class&frame != 0:
	case tag.class&left != 0:
		if tag.name == "svg" && s.selfClosing || tag.class&raw == 0 && !e.hide {
			return
		}
	case !e.hide || tag.class&shown != 0 || !hidden(s):
		return
	}
	e.skip = region{element: tag, open: true, depth: 1, after: s.pos}
}

func (e *extractor) endTag(tag element) {
	if e.skip.open {
		switch {
		case e.skip.closedBy(tag):
			e.skip = region{}
			if tag.class&block != 0 {
				e.out.newline()
			}
			return
		case !e.skip.endsAtEnd(tag):
			return
		}
		e.skip = region{}
	}
	if tag.class&block != 0 {
		e.out.newline()
	}
}
