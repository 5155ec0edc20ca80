package view

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/neardup/neardup"
	"github.com/neardup/neardup/cmd/neardup/internal/compare"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/check"
)

// searchPage is what is near to a URL, a fingerprint or a text.
type searchPage struct {
	Asked string
	Text  string // that was pasted
	Given string // what it was found to be: "document", "fingerprint" or "text"
	Note  string

	Of      *index.Document
	Near    []nearRow
	More    bool
	MaxBits int
}

type nearRow struct {
	*compare.Result // A is what was asked for
	Path            string
	Added           time.Time
}

// maxNear is how many documents a page shows.
const maxNear = 50

func (p *Pages) search(r *http.Request) (any, error) {
	s := &searchPage{Asked: r.Form.Get("q"), Text: r.PostForm.Get("text"), MaxBits: p.source.Stats().MaxDistance}
	var err error
	switch {
	case strings.TrimSpace(s.Text) != "":
		err = p.searchText(r.Context(), s)
	case strings.TrimSpace(s.Asked) != "":
		err = p.searchKey(r.Context(), s)
	}
	if err != nil || s.Of == nil {
		return s, err
	}
	return s, p.near(r.Context(), s)
}

// get returns the document that has a key or, where there is none, that between the spaces around it.
func (p *Pages) get(ctx context.Context, key string) (d index.Document, found bool, err error) {
	d, found, err = p.source.Get(ctx, key)
	if trimmed := strings.TrimSpace(key); err == nil && !found && trimmed != key {
		d, found, err = p.source.Get(ctx, trimmed)
	}
	return d, found, err
}

// searchKey takes what was asked for to be a key, or else a fingerprint.
func (p *Pages) searchKey(ctx context.Context, s *searchPage) error {
	d, found, err := p.get(ctx, s.Asked)
	if err != nil {
		return err
	}
	if found {
		s.Given, s.Of = "document", &d
		return nil
	}
	var f fingerprint.Fingerprint
	if f.UnmarshalText([]byte(strings.TrimPrefix(strings.TrimSpace(s.Asked), "0x"))) == nil {
		s.Given, s.Of = "fingerprint", &index.Document{Fingerprint: f}
		return nil
	}
	s.Note = "No document has this key, and it is no fingerprint of 16 hex digits."
	return nil
}

func (p *Pages) searchText(ctx context.Context, s *searchPage) error {
	signer := p.source.Signer()
	switch {
	case signer == nil:
		return &problem{http.StatusBadRequest, "This index is of fingerprints, not of texts."}
	case len(s.Text) > maxPasted:
		return &problem{http.StatusRequestEntityTooLarge, "The text is too large: 4 MiB at most."}
	}
	end, err := p.reading(ctx)
	if err != nil {
		return err
	}
	defer end()
	d, reason := check.Analyze(signer, neardup.Page{Body: []byte(s.Text)})
	if reason != "" {
		s.Note = "There is nothing to compare: " + reason + "."
		return nil
	}
	s.Given, s.Of = "text", &d
	return nil
}

// near finds what is within k, whether it matches or not.
func (p *Pages) near(ctx context.Context, s *searchPage) error {
	q := index.Query{Signature: fingerprint.Signature{Fingerprint: s.Of.Fingerprint}, Scope: s.Of.Scope, Limit: maxNear + 2}
	found, err := p.source.Query(ctx, q)
	if err != nil {
		return err
	}
	of, rule := compare.Of(s.Of), p.opts.Rule()
	for _, m := range found {
		if m.ID == s.Of.ID && s.Given == "document" {
			continue
		}
		if len(s.Near) == maxNear {
			s.More = true
			break
		}
		row := nearRow{Result: compare.Documents(of, compare.Of(&m.Document), rule, 0), Added: m.Added}
		if s.Given == "document" && m.Key != "" {
			row.Path = pathTo("/compare", "a", s.Of.Key, "b", m.Key)
		}
		s.Near = append(s.Near, row)
	}
	return nil
}

// words are those of the text of a document.
func (p *Pages) words(ctx context.Context, d *index.Document) ([]string, error) {
	end, err := p.reading(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	return p.opts.Texts.Words(ctx, d)
}

// comparePage is two documents beside each other.
type comparePage struct {
	A, B   string
	Note   string
	Result *compare.Result
	Words  string // why there are none
}

// places is how many places where words differ are shown.
const places = 100

func (p *Pages) compare(r *http.Request) (any, error) {
	c := &comparePage{A: r.Form.Get("a"), B: r.Form.Get("b")}
	if strings.TrimSpace(c.A) == "" || strings.TrimSpace(c.B) == "" {
		return c, nil
	}
	var sides [2]*compare.Document
	for i, key := range []string{c.A, c.B} {
		d, found, err := p.get(r.Context(), key)
		switch {
		case err != nil:
			return nil, err
		case !found:
			c.Note = "No document has the key " + shownKey(key)
			return c, nil
		}
		sides[i] = compare.Of(&d)
		if p.opts.Texts != nil {
			if sides[i].Words, err = p.words(r.Context(), &d); err != nil {
				return nil, err
			}
		}
	}
	switch {
	case p.opts.Texts == nil:
		c.Words = "The words are not known: the server was started without --archive."
	case sides[0].Words == nil || sides[1].Words == nil:
		c.Words = "The words are not known: the archives do not have the text of both documents as it was when they were stored."
	}
	c.Result = compare.Documents(sides[0], sides[1], p.opts.Rule(), places)
	return c, nil
}
