// Package page turns the bytes of a web page into the text that a
// [fingerprint.Analyzer] reads: it finds the character encoding, decodes,
// and keeps what a reader of the page would see.
//
// It reads the tokens once (a second time where a page hides nearly all its text,
// or hides an element that never ends), and keeps a stack of the open elements, no
// tree, so no input is refused. Whatever the bytes are, the result is valid UTF-8,
// and time and memory are linear in len(body): the decoded page is at most 3
// times the body (one byte of a single-byte encoding becomes at most three of
// UTF-8; a page that is UTF-8 already is not copied), and so is the text with
// the title (no character reference grows by more than a fifth, and a zero byte
// in a title becomes U+FFFD). With what is in use on the way, a page that is made
// to cost much takes up to 24 times its size (TestHostilePages holds it to that).
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

// TextMode says which text of a page is taken.
type TextMode uint8

const (
	// Visible is the default: the text that a browser would show without running
	// scripts, but for navigation. Left out are script, style, noscript, template,
	// svg, iframe, canvas, audio, video and nav, and elements with a hidden
	// attribute, an inline display:none or the role of navigation (except html
	// and body, which pages hide only until a script shows them). What a page hides
	// so is taken as well where it is more than ten times what the page shows. Style
	// sheets are not read.
	Visible TextMode = iota

	// Main is the main text: what is left of the visible text without what
	// frames it on the page, by a search through its block elements; before it the
	// title and the first h1. Where little is found, it is the visible text.
	Main

	// URLs is added to one of the others, as in Visible|URLs: link targets and URLs
	// in plain text and Markdown are then words. Else they are none, since they
	// change though what is written does not. In HTML the targets of links are no
	// text anyhow, and URLs that are shown are words in every mode.
	URLs TextMode = 1 << 7
)

// textNames change whenever the text that a Signer takes of some document does.
var textNames = [...]string{Visible: "visible/3", Main: "main/2"}

// name identifies the text: two versions of this package that give the same
// name for a mode give the same text for every page. It is a part of [Signer.Name].
func (m TextMode) name() string {
	if m&URLs != 0 {
		return textNames[m&^URLs] + urlsName
	}
	return textNames[m]
}

const urlsName = "+urls"

// Signer turns a document, as it came over the network, into a
// [fingerprint.Signature]: it tells what kind of document it is, decodes it,
// takes its text and analyzes that. It is safe for concurrent use.
type Signer struct {
	mode     TextMode
	analyzer *fingerprint.Analyzer
}

// NewSigner makes a Signer that takes this text of HTML pages and analyzes it as
// the options say. The error is one of the mode or the options.
func NewSigner(mode TextMode, analysis fingerprint.Options) (*Signer, error) {
	if mode&^URLs > Main {
		return nil, fmt.Errorf("page: unknown text mode %d: use page.Visible or page.Main", mode)
	}
	analyzer, err := fingerprint.NewAnalyzer(analysis)
	if err != nil {
		return nil, err
	}
	return &Signer{mode, analyzer}, nil
}

// ParseSigner makes the Signer of a name that [Signer.Name] gave. The error says
// which part of the name this version does not know; it wraps
// [fingerprint.ErrOptions] where that is in the analyzer's part.
func ParseSigner(name string) (*Signer, error) {
	text, rest, _ := strings.Cut(name, " ")
	for _, mode := range []TextMode{Visible, Main, Visible | URLs, Main | URLs} {
		if mode.name() != text {
			continue
		}
		analyzer, err := fingerprint.ParseAnalyzer(rest)
		if err != nil {
			return nil, fmt.Errorf("page: signer %q: %w", name, err)
		}
		return &Signer{mode, analyzer}, nil
	}
	return nil, fmt.Errorf("page: signer %q takes the text %q, this version knows %s: make a new index from the documents", name, text, strings.Join(textNames[:], " and "))
}

// Name identifies the text that is taken and the analyzer: two Signers of one
// name give equal signatures for every document. It is what index.Options.Analyzer
// records, so that an index is only ever opened with the Signer that it was made
// with. [ParseSigner] reads it.
func (s *Signer) Name() string { return s.mode.name() + " " + s.analyzer.Name() }

// Analyzer is what analyzes the text.
func (s *Signer) Analyzer() *fingerprint.Analyzer { return s.analyzer }

// Sign gives the signature of a document. contentType is the value of the HTTP
// header Content-Type, or empty. The error wraps [ErrNotText] where the document
// is neither HTML nor plain text, by [KindOf]. A document without a word has a
// signature of 0 Tokens, and nothing to compare.
func (s *Signer) Sign(contentType string, body []byte) (fingerprint.Signature, error) {
	kind, err := KindOf(contentType, body)
	if err != nil {
		return fingerprint.Signature{}, err
	}
	return s.SignKind(kind, contentType, body), nil
}

// SignKind is Sign for a document of known kind.
func (s *Signer) SignKind(kind Kind, contentType string, body []byte) (signature fingerprint.Signature) {
	s.withText(kind, contentType, body, func(text []byte) { signature = s.analyzer.Bytes(text) })
	return signature
}

// Text gives the text that SignKind analyzes.
func (s *Signer) Text(kind Kind, contentType string, body []byte) (text string) {
	s.withText(kind, contentType, body, func(t []byte) { text = string(t) })
	return text
}

// withText hands on the text of a document, which is valid only for that long.
func (s *Signer) withText(kind Kind, contentType string, body []byte, use func(text []byte)) {
	body, _ = decode(body, contentType)
	switch {
	case kind == HTML:
		e := extract(body, s.mode)
		defer e.release()
		use(e.result())
	case s.mode&URLs != 0:
		use(body)
	default:
		e := extractors.Get().(*extractor)
		defer e.release()
		use(e.out.withoutURLs(body))
	}
}

// Kind says how the text of a document is found.
type Kind uint8

const (
	HTML      Kind = iota + 1 // text/html and XHTML
	PlainText                 // text/plain and Markdown
)

// ErrNotText is what [KindOf] and [Signer.Sign] wrap for a document that is
// neither HTML nor plain text: an image, a PDF file, JSON. The error names the
// media type: "not text: image/png".
var ErrNotText = errors.New("not text")

// KindOf tells the kind of a document by the Content-Type header that it came
// with, and by its content where the header is missing or says nothing, or where
// a document that is declared to be text begins like an image or an archive. For
// an empty body it goes by the header alone; the kind is then 0 where the content
// would decide.
func KindOf(contentType string, body []byte) (Kind, error) {
	media := mediatype.Of(contentType)
	var declared Kind
	switch media {
	case "text/html", "application/xhtml+xml", "application/vnd.wap.xhtml+xml":
		declared = HTML
	case "text/plain", "text/markdown", "text/x-markdown":
		declared = PlainText
	case "", "unknown", "application/octet-stream", "application/unknown", "binary/octet-stream", "*/*":
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

// sniff tells pages from texts, and both from everything else, by content.
func sniff(body []byte) (Kind, error) {
	media, binary := mediatype.Binary(body)
	switch {
	case binary:
	case media == "text/html":
		return HTML, nil
	case media == "text/xml" && bytes.Contains(body[:min(len(body), mediatype.SniffBytes)], []byte("<html")):
		return HTML, nil
	case media == "text/plain" || mediatype.IsText(body):
		return PlainText, nil
	}
	return 0, notText(media)
}
