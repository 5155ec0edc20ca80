package page

import (
	"bytes"
	"strings"

	"golang.org/x/net/html"
)

// visible gives the title and the text of a page that is valid UTF-8.
func visible(doc []byte) (title, text string) {
	e := extractor{doc: doc, hide: true}
	for e.run() {
	}
	return e.title, e.out.text.String()
}

// mainText gives the main text of a page, or the visible text if there is too
// little of it.
func mainText(doc []byte, visible string) string {
	e := extractor{doc: doc, hide: true, main: true}
	for e.run() {
	}
	if text := e.out.text.String(); len(text) > len(visible)/8 {
		return text
	}
	return visible
}

// extractor reads the token stream once; where an element that is left out
// never ends, it goes back to that element's start tag, once, and from there
// takes everything but script and style. So no unclosed tag loses a page.
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
	z := html.NewTokenizer(bytes.NewReader(e.doc[e.start:]))
	for {
		tokenType := z.Next()
		if tokenType == html.ErrorToken {
			break
		}
		e.start += len(z.Raw())
		switch tokenType {
		case html.TextToken:
			e.text(z)
		case html.StartTagToken, html.SelfClosingTagToken:
			e.startTag(z, tokenType == html.SelfClosingTagToken)
		case html.EndTagToken:
			e.endTag(z)
		}
	}
	if e.skip.name == "" || e.skip.class&raw != 0 {
		return false
	}
	e.start, e.hide, e.skip = e.skip.after, false, region{}
	return true
}

func (e *extractor) text(z *html.Tokenizer) {
	switch {
	case e.skip.name == "":
		e.out.write(z.Text())
	case e.skip.name == "title" && !e.titled:
		e.title, e.titled = collapse(z.Text()), true
	}
}

func (e *extractor) startTag(z *html.Tokenizer, selfClosing bool) {
	name, hasAttr := z.TagName()
	tag := elementOf(name)
	if e.skip.name != "" {
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
		if tag.name == "svg" && selfClosing || tag.class&raw == 0 && !e.hide {
			return
		}
	case !e.hide || tag.class&shown != 0 || !hasAttr || !hidden(z):
		return
	}
	e.skip = region{element: tag, depth: 1, after: e.start}
}

func (e *extractor) endTag(z *html.Tokenizer) {
	name, _ := z.TagName()
	tag := elementOf(name)
	if e.skip.name != "" {
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

// textWriter collapses white space and keeps block boundaries.
type textWriter struct {
	text strings.Builder
	gap  byte // what stands between text and the next word: 0, ' ' or '\n'
}

func (w *textWriter) newline() { w.gap = '\n' }

func (w *textWriter) write(s []byte) {
	for i := 0; i < len(s); {
		if asciiSpace[s[i]] {
			if w.gap == 0 {
				w.gap = ' '
			}
			i++
			continue
		}
		word := i
		for i < len(s) && !asciiSpace[s[i]] {
			i++
		}
		if w.gap != 0 && w.text.Len() > 0 {
			w.text.WriteByte(w.gap)
		}
		w.gap = 0
		w.text.Write(s[word:i])
	}
}

var asciiSpace = [256]bool{' ': true, '\n': true, '\t': true, '\r': true, '\f': true}
