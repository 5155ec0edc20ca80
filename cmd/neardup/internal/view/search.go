package view

import (
	"context"
	"net/http"
	"strings"

	"github.com/neardup/neardup"
	"github.com/neardup/neardup/cmd/neardup/internal/compare"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/check"
)

// searchPage is the data of the page that explains the verdict on a stored document, a page or a
// fingerprint.
type searchPage struct {
	Asked     string // key or fingerprint
	URL, Text string // pasted page
	Note      string // why there is no explanation
	MaxBits   int

	Given     string // "document" if it is stored, "page" or "fingerprint"
	Of        *index.Document
	Explained *compare.Explained
}

// Decisive returns the comparison with the document that a duplicate matches.
func (s *searchPage) Decisive() *compare.Result {
	for _, c := range s.Explained.Candidates {
		if c.Match {
			return c
		}
	}
	return nil
}

// Path returns the path of the comparison of the document with a candidate. It is "" if one of them
// has no key.
func (s *searchPage) Path(candidate *compare.Result) string {
	if s.Asked == "" || s.Of.Key == "" || candidate.B.Key == "" {
		return ""
	}
	return pathTo("/compare", "a", s.Of.Key, "b", candidate.B.Key)
}

func (p *Pages) search(r *http.Request) (any, error) {
	s := &searchPage{Asked: r.Form.Get("q"), URL: r.PostForm.Get("url"),
		Text: r.PostForm.Get("text"), MaxBits: p.index.Stats().MaxDistance}
	reason := ""
	var err error
	switch {
	case strings.TrimSpace(s.Text) != "":
		s.Given = "page"
		s.Of, reason, err = p.pasted(r.Context(), s.URL, s.Text)
	case strings.TrimSpace(s.Asked) != "":
		reason, err = p.asked(r.Context(), s)
	}
	if err != nil || s.Of == nil {
		return s, err
	}
	s.Explained, err = compare.Explain(r.Context(), p.index, s.Of.Key, s.Of, reason, p.opts.Rule)
	return s, err
}

// asked finds the document, page or fingerprint of a search. A page that is not stored can be in
// the archives.
func (p *Pages) asked(ctx context.Context, s *searchPage) (reason string, err error) {
	var stored bool
	s.Of, stored, reason, err = p.find(ctx, s.Asked)
	switch {
	case err != nil:
		return "", err
	case stored:
		s.Given = "document"
	case s.Of != nil:
		s.Given = "page"
	default:
		var f fingerprint.Fingerprint
		if f.UnmarshalText([]byte(strings.TrimPrefix(strings.TrimSpace(s.Asked), "0x"))) == nil {
			s.Given, s.Of = "fingerprint", &index.Document{Fingerprint: f}
			break
		}
		s.Note = "No document has this key. Duplicates and skipped pages are not stored. To find " +
			"out why a page was dropped, paste its text below."
	}
	return reason, nil
}

// find returns the stored document that has a key. If none has it, find returns the document of the
// page that the archives have for the key, and the reason if this page would be skipped. d is nil
// if neither exists. find also tries the key without surrounding spaces.
func (p *Pages) find(
	ctx context.Context, key string,
) (d *index.Document, stored bool, reason string, err error) {
	for _, key := range []string{key, strings.TrimSpace(key)} {
		d, found, err := p.index.Get(ctx, key)
		if err != nil || found {
			return &d, found, "", err
		}
	}
	if p.opts.Texts == nil {
		return nil, false, "", nil
	}
	if err := p.texts.Acquire(ctx, 1); err != nil {
		return nil, false, "", err
	}
	defer p.texts.Release(1)
	page, err := p.opts.Texts.Page(ctx, strings.TrimSpace(key))
	if err != nil || page == nil {
		return nil, false, "", err
	}
	d, reason = p.analyze(*page)
	return d, false, reason, nil
}

// analyze returns the document of a page. It has a key even if the page would be skipped.
func (p *Pages) analyze(page neardup.Page) (d *index.Document, reason string) {
	analyzed, reason := check.Analyze(p.index.Signer(), page)
	analyzed.Key = page.URL
	return &analyzed, reason
}

// pasted analyzes a page that a user pasted.
func (p *Pages) pasted(
	ctx context.Context, url, text string,
) (d *index.Document, reason string, err error) {
	switch {
	case p.index.Signer() == nil:
		return nil, "", &problem{http.StatusBadRequest, "This index has fingerprints, not texts."}
	case len(text) > maxPasted:
		return nil, "", &problem{http.StatusRequestEntityTooLarge,
			"The text is too large: the limit is 4 MiB."}
	}
	if err := p.texts.Acquire(ctx, 1); err != nil {
		return nil, "", err
	}
	defer p.texts.Release(1)
	d, reason = p.analyze(neardup.Page{URL: strings.TrimSpace(url), Body: []byte(text)})
	return d, reason, nil
}

// comparePage is the data of the page that compares two documents.
type comparePage struct {
	A, B   string
	Note   string
	Result *compare.Result
	Words  string // why the words are not shown
}

// places is the number of places with different words that are shown.
const places = 100

func (p *Pages) compare(r *http.Request) (any, error) {
	c := &comparePage{A: r.Form.Get("a"), B: r.Form.Get("b")}
	if strings.TrimSpace(c.A) == "" || strings.TrimSpace(c.B) == "" {
		return c, nil
	}
	var sides [2]*compare.Document
	for i, key := range []string{c.A, c.B} {
		d, _, reason, err := p.find(r.Context(), key)
		switch {
		case err != nil:
			return nil, err
		case d == nil:
			c.Note = "No document has the key " + shownKey(key)
			return c, nil
		case reason != "":
			c.Note = shownKey(key) + " is skipped: " + reason
			return c, nil
		}
		sides[i] = compare.Of(d)
		if p.opts.Texts != nil {
			if sides[i].Words, err = p.words(r.Context(), d); err != nil {
				return nil, err
			}
		}
	}
	switch {
	case p.opts.Texts == nil:
		c.Words = "The words are not known: the server was started without --archive."
	case sides[0].Words == nil || sides[1].Words == nil:
		c.Words = "The words are not known: the archives do not have the text of both documents " +
			"as it was when they were stored."
	}
	c.Result = compare.Documents(sides[0], sides[1], p.opts.Rule, places)
	return c, nil
}

// words returns the words of a document.
func (p *Pages) words(ctx context.Context, d *index.Document) ([]string, error) {
	if err := p.texts.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	defer p.texts.Release(1)
	return p.opts.Texts.Words(ctx, d)
}
