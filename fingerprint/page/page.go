// Package page turns the bytes of a web page into the text that a
// [fingerprint.Analyzer] reads: it finds the character encoding, decodes,
// and keeps what a reader of the page would see.
//
// It works on the token stream and builds no tree, so nesting costs nothing
// and no input is refused. Whatever the bytes are, the result is valid UTF-8,
// and time and memory are linear in len(body): the decoded page is at most 3
// times the body (one byte of a single-byte encoding becomes at most three of
// UTF-8; a page that is UTF-8 already is not copied), and so is the text with
// the title (no character reference grows by more than a fifth, and a zero byte
// in a title becomes U+FFFD). With what is in use on the way, a page that is made
// to cost much takes some 12 times its size (TestHostilePages measures it).
//
// All functions are safe for concurrent use and keep no reference to body.
package page

import (
	"bytes"
	"fmt"
)

// TextMode says which text of a page is taken.
type TextMode uint8

const (
	// Visible is the default: the text that a browser would show without running
	// scripts, but for navigation. Left out are script, style, noscript, template,
	// svg, iframe, canvas, audio, video and nav, and elements with a hidden
	// attribute, an inline display:none or the role of navigation (except html
	// and body, which pages hide only until a script shows them). Where more
	// than ten times the text is hidden so than is not, it is taken as well. Style
	// sheets are not read.
	Visible TextMode = iota

	// Main is the main text: what is left of the visible text without what
	// frames it on the page, by a search through its block elements. Where
	// little is found, it is the visible text.
	Main
)

// textNames change whenever the text that Extract gives for some page does.
var textNames = [...]string{Visible: "visible/2", Main: "main/1"}

// Name identifies the text: two versions of this package that give the same
// name for a mode give the same text for every page. It is a part of [Signer.Name].
func (m TextMode) Name() string {
	if int(m) < len(textNames) {
		return textNames[m]
	}
	return "unknown"
}

// Options of Extract. The zero value is ready to use.
type Options struct {
	Text TextMode // default Visible
}

func (o Options) check() error {
	if o.Text > Main {
		return fmt.Errorf("page: unknown text mode %d: use page.Visible or page.Main", o.Text)
	}
	return nil
}

// Page is what Extract finds.
type Page struct {
	// Title is the text of the first title element, white space collapsed.
	// It is not part of Text: a browser shows it outside the page.
	Title string
	// Text has one line for each block of the page that has text; inside a
	// line, runs of ASCII white space are one space.
	Text string
	// Charset is the encoding that the body was decoded with, by its name in
	// the WHATWG Encoding Standard: "utf-8", "windows-1252", "gbk".
	Charset string
}

// Extract reads an HTML page. contentType is the value of the HTTP header
// Content-Type, or empty. How the encoding is found is told at [Decode].
// The only error is an Options.Text that this version does not know.
func Extract(body []byte, contentType string, opts Options) (Page, error) {
	if err := opts.check(); err != nil {
		return Page{}, err
	}
	decoded, name := Decode(body, contentType)
	find := visible
	if opts.Text == Main {
		find = mainText
	}
	title, text := find(decoded)
	return Page{Title: title, Text: text, Charset: name}, nil
}

// Plain reads a page that is plain text: it decodes and changes nothing else.
func Plain(body []byte, contentType string) Page {
	decoded, name := Decode(body, contentType)
	return Page{Text: string(decoded), Charset: name}
}

// collapse is s with each run of ASCII white space made one space, and none
// at either end.
func collapse(s []byte) string {
	return string(bytes.Join(bytes.FieldsFunc(s, isSpace), []byte{' '}))
}

func isSpace(r rune) bool {
	return r == ' ' || r == '\n' || r == '\t' || r == '\r' || r == '\f'
}
