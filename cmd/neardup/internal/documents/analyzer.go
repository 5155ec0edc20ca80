// Package documents reads the documents of inputs and analyzes them on all cores.
package documents

import (
	"errors"
	"fmt"
	"strings"

	"github.com/neardup/neardup"
	"github.com/neardup/neardup/client/api"
	"github.com/neardup/neardup/cmd/neardup/internal/compare"
	"github.com/neardup/neardup/cmd/neardup/internal/corpus"
	"github.com/neardup/neardup/fingerprint/page"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/check"
	"github.com/neardup/neardup/internal/duplicates"
	"github.com/neardup/neardup/internal/match"
)

// Analyzer computes the documents of records.
type Analyzer struct {
	*page.Signer        // nil if the index has no analyzer, or this version does not know it
	Bare         bool   // the index has no analyzer: pages are skipped
	Scope        string // of documents: none, host (of the key) or field (of JSON)
	NoKeys       bool   // documents have no keys
	AsKey        string // the key of all documents, if it is given
}

// Use sets Signer and Bare to the analyzer of an index.
func (a *Analyzer) Use(x *neardup.Index) {
	a.Signer, a.Bare = x.Signer(), x.Stats().Analyzer == ""
}

// Key returns the key with which the document of a record is stored, or "" if it is stored without
// a key. The position of a record is never a key: in the next run, another document may have it.
func (a *Analyzer) Key(r *corpus.Record) string {
	switch {
	case a.AsKey != "":
		return a.AsKey
	case a.NoKeys:
		return ""
	}
	return r.Key
}

// scopeOf returns the scope of a record.
func (a *Analyzer) scopeOf(r *corpus.Record) string {
	switch a.Scope {
	case "host":
		return duplicates.Host(r.Key)
	case "field":
		return strings.Clone(r.Scope)
	}
	return ""
}

// Document returns the document of a record, or the reason why the record is skipped. It removes
// the content from the record, so that its memory is free after the analysis.
func (a *Analyzer) Document(
	key string, r *corpus.Record,
) (d index.Document, reason string, err error) {
	p := neardup.Page{URL: key, ContentType: r.ContentType, Body: r.Content,
		Scope: a.scopeOf(r), Kind: r.Kind}
	r.Content = nil
	switch {
	case r.Kind == corpus.Fingerprint && r.Fingerprint == 0 && a.Signer != nil:
		return d, api.NoText, nil // the fingerprint of a document without text
	case r.Kind == corpus.Fingerprint:
		d = index.Document{Key: key, Fingerprint: r.Fingerprint, Scope: p.Scope}
		if match.Validate(&d) != nil {
			reason = fmt.Sprintf("too large: key of %d bytes, scope of %d",
				len(d.Key), len(d.Scope))
		}
		return d, reason, nil
	case a.Bare:
		return d, check.NoPages, nil
	case a.Signer == nil:
		return d, "", fmt.Errorf("%s: %w: this version does not know the analyzer of the "+
			"index: build a new index from the documents", key,
			index.ErrMismatch)
	}
	d, reason = check.Analyze(a.Signer, p)
	return d, reason, nil
}

// Described returns the document of a record, with the words in the first most bytes of its text.
func (a *Analyzer) Described(key string, r *corpus.Record, most int) (*compare.Document, error) {
	if r.Skip != nil {
		return nil, r.Skip
	}
	var words []string
	if r.Kind != corpus.Fingerprint && a.Signer != nil {
		words = compare.Words(a.Text(r.Kind, r.ContentType, r.Content), most)
	}
	d, reason, err := a.Document(key, r)
	if reason != "" {
		err = errors.New(reason)
	}
	s := compare.Of(&d)
	s.Words = words
	return s, err
}
