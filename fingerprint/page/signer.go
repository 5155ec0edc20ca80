package page

import (
	"fmt"
	"strings"

	"github.com/neardup/neardup/fingerprint"
)

// Signer turns a document, as it came over the network, into a
// [fingerprint.Signature]: it tells what kind of document it is, decodes it,
// takes its text and analyzes that. It is safe for concurrent use.
type Signer struct {
	mode     TextMode
	analyzer *fingerprint.Analyzer
}

// NewSigner makes a Signer that takes the text of HTML pages as text says and
// analyzes it as analysis says. The error is one of the options.
func NewSigner(text Options, analysis fingerprint.Options) (*Signer, error) {
	if err := text.check(); err != nil {
		return nil, err
	}
	analyzer, err := fingerprint.NewAnalyzer(analysis)
	if err != nil {
		return nil, err
	}
	return &Signer{text.Text, analyzer}, nil
}

// ParseSigner makes the Signer of a name that [Signer.Name] gave. The error says
// which part of the name this version does not know; it wraps
// [fingerprint.ErrOptions] where that is in the analyzer's part.
func ParseSigner(name string) (*Signer, error) {
	text, rest, _ := strings.Cut(name, " ")
	for mode := range textNames {
		if textNames[mode] != text {
			continue
		}
		analyzer, err := fingerprint.ParseAnalyzer(rest)
		if err != nil {
			return nil, fmt.Errorf("page: signer %q: %w", name, err)
		}
		return &Signer{TextMode(mode), analyzer}, nil
	}
	return nil, fmt.Errorf("page: signer %q takes the text %q, this version knows %s", name, text, strings.Join(textNames[:], " and "))
}

// Name identifies the text that is taken and the analyzer: two Signers of one
// name give equal signatures for every document. It is what index.Options.Analyzer
// records, so that an index is only ever opened with the Signer that it was made
// with. [ParseSigner] reads it.
func (s *Signer) Name() string { return s.mode.Name() + " " + s.analyzer.Name() }

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
func (s *Signer) SignKind(kind Kind, contentType string, body []byte) fingerprint.Signature {
	body, _ = Decode(body, contentType)
	if kind != HTML {
		return s.analyzer.Bytes(body)
	}
	e := extract(body, s.mode)
	defer e.release()
	if s.mode == Main {
		return s.analyzer.Text(e.parts.main(e.out.text))
	}
	return s.analyzer.Bytes(e.out.text)
}

// Text gives the text that SignKind analyzes.
func (s *Signer) Text(kind Kind, contentType string, body []byte) string {
	if kind != HTML {
		return Plain(body, contentType).Text
	}
	p, _ := Extract(body, contentType, Options{Text: s.mode}) // the mode was checked
	return p.Text
}
