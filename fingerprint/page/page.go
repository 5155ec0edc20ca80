// Package page turns the bytes of a web page into the text that a [fingerprint.Analyzer] reads. It
// finds the character encoding, decodes the page, and keeps what a reader of the page would see.
//
// # Hidden text
//
// Hidden text is part of the text of the page, since a browser shows it after the scripts of the
// page ran, or without scripts. A page hides text with hidden, display:none, a closed dialog or
// noscript. The text of documents within the page is also included: iframe srcdoc, foreignObject
// and a declarative shadow root.
//
// Some elements are left out, unless the page has no other text. A hidden element is left out if
// more than half of its text is in links and buttons, and navigation if more than half of its text
// is in links, buttons and short lines. Hidden elements that ask for consent to cookies, notices
// that ask for JavaScript, and templates that no script of a streaming framework moves into the
// page are also left out.
//
// # Cost
//
// The package reads the tokens of a page once. It reads them a second time if the page has only
// text of menus, or if an element that is left out never ends. It keeps a stack of the open
// elements but no tree, so it accepts any input. For any bytes, the result is valid UTF-8, and time
// and memory are linear in len(body).
//
// The decoded page is at most 3 times as large as the body, since one byte of a single-byte
// encoding becomes at most three bytes of UTF-8. A page in UTF-8 is not copied. The text with the
// title is at most 3 times as large, too: no character reference grows by more than a fifth, and a
// zero byte in a title becomes U+FFFD. Including working memory, the package needs up to 24 times
// the size of a page. TestCases checks this bound for the pages in testdata/cases/hostile.
//
// All functions are safe for concurrent use and keep no reference to body.
package page

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/internal/mediatype"
)

// TextMode selects the text of a page.
type TextMode uint8

const (
	// Visible is the default: the text that a browser shows, without navigation. The
	// package comment says which hidden text is part of it. Script, style, svg,
	// canvas, audio and video elements are left out. Style sheets are not read.
	Visible TextMode = iota

	// Main is the main text: the visible text without the parts of the page around it, such as
	// menus. A search through the block elements finds the main text. It begins with the title and
	// the first h1 element. If the search finds little text, Main is the visible text.
	Main
)

// textNames has the names of the modes. A name changes if the text of any document changes.
var textNames = [...]string{Visible: "visible/4", Main: "main/3"}

// name identifies the mode and its version. Versions of this package with the same name of a mode
// extract the same text from every page. The name is a part of [Signer.Name].
func (m TextMode) name() string { return textNames[m] }

// Signer computes the [fingerprint.Signature] of a document as it was received over the network. It
// determines the kind of the document, decodes it, extracts its text and analyzes the text. It is
// safe for concurrent use.
type Signer struct {
	mode     TextMode
	analyzer *fingerprint.Analyzer
}

// NewSigner returns a Signer that extracts the text that mode selects from HTML pages, and analyzes
// it with the given options. It returns an error if mode or the options are invalid.
func NewSigner(mode TextMode, analysis fingerprint.Options) (*Signer, error) {
	if mode > Main {
		return nil, fmt.Errorf("page: unknown text mode %d: use page.Visible or page.Main", mode)
	}
	analyzer, err := fingerprint.NewAnalyzer(analysis)
	if err != nil {
		return nil, err
	}
	return &Signer{mode, analyzer}, nil
}

// ParseSigner returns the Signer whose [Signer.Name] is name. It returns an error if this version
// of the package does not know the text mode or the analyzer. In the second case, the error wraps
// [fingerprint.ErrOptions].
func ParseSigner(name string) (*Signer, error) {
	text, rest, _ := strings.Cut(name, " ")
	for _, mode := range []TextMode{Visible, Main} {
		if mode.name() != text {
			continue
		}
		analyzer, err := fingerprint.ParseAnalyzer(rest)
		if err != nil {
			return nil, fmt.Errorf("page: signer %q: %w", name, err)
		}
		return &Signer{mode, analyzer}, nil
	}
	return nil, fmt.Errorf("page: signer %q has the text mode %q, want %s: build a new index "+
		"from the documents", name, text, strings.Join(textNames[:], " or "))
}

// Name identifies the text mode and the analyzer. Two Signers with equal names return equal
// signatures for every document. An index records the name as index.Options.Analyzer, and can be
// opened only with a Signer of that name. [ParseSigner] reads the name.
func (s *Signer) Name() string { return s.mode.name() + " " + s.analyzer.Name() }

// Analyzer returns the analyzer of the text.
func (s *Signer) Analyzer() *fingerprint.Analyzer { return s.analyzer }

// Sign returns the signature of a document. contentType is the value of the HTTP
// header Content-Type, or empty. The error wraps [ErrNotText] if the document is
// neither HTML nor plain text according to [KindOf]. The signature of a document
// without words has 0 Tokens and cannot be compared.
func (s *Signer) Sign(contentType string, body []byte) (fingerprint.Signature, error) {
	kind, err := KindOf(contentType, body)
	if err != nil {
		return fingerprint.Signature{}, err
	}
	return s.SignKind(kind, contentType, body), nil
}

// SignKind is like Sign, for a document whose kind is known.
func (s *Signer) SignKind(
	kind Kind, contentType string, body []byte,
) (signature fingerprint.Signature) {
	s.withText(kind, contentType, body, func(text []byte) { signature = s.analyzer.Bytes(text) })
	return signature
}

// Text returns the text that SignKind analyzes.
func (s *Signer) Text(kind Kind, contentType string, body []byte) (text string) {
	s.withText(kind, contentType, body, func(t []byte) { text = string(t) })
	return text
}

// withText calls use with the text of a document. The text is valid only during the
// call.
func (s *Signer) withText(kind Kind, contentType string, body []byte, use func(text []byte)) {
	body, _ = decode(body, contentType)
	if kind == HTML {
		e := extract(body, s.mode, isXHTML(contentType, body))
		defer e.release()
		use(e.result())
		return
	}
	e := extractors.Get().(*extractor)
	defer e.release()
	use(e.out.withoutURLs(body)) // URLs and link targets may differ in copies of a text
}

// isXHTML reports whether a browser would read a page as XML: by its media type or, if this is
// neither HTML nor XHTML, by its XML declaration.
func isXHTML(contentType string, body []byte) bool {
	switch mediatype.Of(contentType) {
	case "application/xhtml+xml", "application/vnd.wap.xhtml+xml":
		return true
	case "text/html":
		return false
	}
	return bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n\f"), []byte("<?xml"))
}

// Kind is the kind of a document. It determines how the text is extracted.
type Kind uint8

const (
	HTML      Kind = iota + 1 // text/html and XHTML
	PlainText                 // text/plain and Markdown
)

// ErrNotText is the error that [KindOf] and [Signer.Sign] wrap for a document that is
// neither HTML nor plain text, such as an image, a PDF file or JSON. The error names
// the media type: "not text: image/png".
var ErrNotText = errors.New("not text")

// KindOf returns the kind of a document. It uses the Content-Type header. It uses the content if
// the header is missing or generic, or if a document that is declared as text begins like an image
// or an archive. For an empty body, it uses only the header, and returns 0 if it would need the
// content.
func KindOf(contentType string, body []byte) (Kind, error) {
	media := mediatype.Of(contentType)
	var declared Kind
	switch media {
	case "text/html", "application/xhtml+xml", "application/vnd.wap.xhtml+xml":
		declared = HTML
	case "text/plain", "text/markdown", "text/x-markdown":
		declared = PlainText
	case "", "unknown", "application/octet-stream", "application/unknown",
		"binary/octet-stream", "*/*":
		if len(body) == 0 {
			return 0, nil
		}
		return sniff(body)
	default:
		return 0, notText(media)
	}
	if media, yes := mediatype.Binary(body); yes {
		return 0, notText(media)
	}
	return declared, nil
}

func notText(media string) error { return fmt.Errorf("%w: %s", ErrNotText, media) }

// sniff returns the kind of a document by its content.
func sniff(body []byte) (Kind, error) {
	media, binary := mediatype.Binary(body)
	switch {
	case binary:
	case media == "text/html":
		return HTML, nil
	case media == "text/xml" && bytes.Contains(body[:min(len(body), mediatype.SniffBytes)],
		[]byte("<html")):
		return HTML, nil
	case media == "text/plain" || mediatype.IsText(body):
		return PlainText, nil
	}
	return 0, notText(media)
}
