// Package wire encodes and decodes the JSON of package client/api, and translates between its
// objects and documents, verdicts and errors of an index. It opens no index and links no store.
package wire

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/neardup/neardup/client/api"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/fingerprint/page"
	"github.com/neardup/neardup/internal/match"
)

// contents lists the fields that can have the content of a document.
const contents = "html, text, content, body or fingerprint"

// Parse parses a document of a request and sets its Key. The error describes the malformed part.
func Parse(raw []byte, d *api.Document) error {
	*d = api.Document{}
	raw = bytes.TrimPrefix(raw, []byte("\ufeff"))
	if err := json.Unmarshal(raw, d, json.RejectUnknownMembers(true)); err != nil {
		return explain(raw, err)
	}
	for _, name := range []string{string(d.KeyBytes), d.URL, string(d.ID)} {
		if name != "" && d.Key != "" && name != d.Key {
			return fmt.Errorf(
				"two keys, %.80q and %.80q: give one of key, keyBytes, url and id", d.Key, name)
		}
		d.Key = cmp.Or(d.Key, name)
	}
	if d.Limit < 0 {
		return fmt.Errorf("limit is %d, want 0 or more", d.Limit)
	}
	if d.Tokens < 0 {
		return fmt.Errorf("tokens is %d, want 0 or more", d.Tokens)
	}
	if d.Fingerprint == nil && d.HTML == nil && d.Text == nil && d.Content == nil && d.Body == nil {
		return errors.New("no document: want " + contents)
	}
	if _, known := kinds[d.Kind]; !known {
		return fmt.Errorf("kind is %.40q, want html or text", d.Kind)
	}
	return nil
}

var kinds = map[string]page.Kind{"": 0, "html": page.HTML, "text": page.PlainText}

// explain describes an error in a document with the terms of docs/reference/http.md.
func explain(raw []byte, err error) error {
	var syntax *jsontext.SyntacticError
	var wrong *json.SemanticError
	switch {
	case !utf8.Valid(raw):
		return errors.New("not UTF-8: use keyBytes and body, in base64")
	case errors.As(err, &syntax) && errors.Is(err, jsontext.ErrDuplicateName):
		return fmt.Errorf("the field %q is repeated", syntax.JSONPointer.LastToken())
	case errors.As(err, &syntax):
		return fmt.Errorf("not JSON: byte %d: %w", syntax.ByteOffset, syntax.Err)
	case !errors.As(err, &wrong):
		return fmt.Errorf("not JSON: %w", err)
	}
	switch field := wrong.JSONPointer.LastToken(); {
	case errors.Is(err, json.ErrUnknownName):
		return fmt.Errorf("unknown field %.80q: the document is in %s, its key in key, url or id",
			field, contents)
	case field == "":
		return fmt.Errorf("not a JSON object but %s", kindNames[wrong.JSONKind])
	case wrong.Err != nil:
		return fmt.Errorf("%s: %w", field, wrong.Err)
	default:
		return fmt.Errorf("%s must not be %s", field, kindNames[wrong.JSONKind])
	}
}

var kindNames = map[jsontext.Kind]string{'n': "null", 't': "a boolean", 'f': "a boolean",
	'"': "a string", '0': "a number", '{': "an object", '[': "an array"}

// Split returns a key or scope as a field of a JSON object: text if it is UTF-8, or else bytes.
func Split(s string) (text string, bytes []byte) {
	if utf8.ValidString(s) {
		return s, nil
	}
	return "", []byte(s)
}

// join is the inverse of Split.
func join(text string, bytes []byte) string { return cmp.Or(text, string(bytes)) }

// Document converts a document with a fingerprint, which Parse has returned.
func Document(d *api.Document) match.Document {
	return match.Document{
		Key: d.Key, Fingerprint: *d.Fingerprint, Shingles: d.Shingles, Digest: d.Digest,
		Tokens: d.Tokens, Scope: join(d.Scope, d.ScopeBytes),
	}
}

// Page converts a document of Parse to a page: the first non-empty html, text, content or body.
func Page(d *api.Document) api.Page {
	p := api.Page{URL: d.Key, Scope: join(d.Scope, d.ScopeBytes), ContentType: d.ContentType,
		Kind: kinds[d.Kind], Body: d.Body}
	switch {
	case d.HTML != nil && (*d.HTML != "" || d.Text == nil && d.Content == nil && d.Body == nil):
		p.Body, p.Kind, p.ContentType = []byte(*d.HTML), page.HTML, "text/html; charset=utf-8"
	case d.Text != nil && (*d.Text != "" || d.Content == nil && d.Body == nil):
		p.Body, p.Kind, p.ContentType = []byte(*d.Text), page.PlainText, "text/plain; charset=utf-8"
	case d.Content != nil:
		p.Body = []byte(*d.Content)
		if p.Kind == 0 {
			kind, err := page.KindOf(d.ContentType, p.Body)
			if err != nil {
				return p // the analysis of p returns the same error
			}
			p.Kind = kind
		}
		p.ContentType = "text/html; charset=utf-8" // JSON is UTF-8
	}
	return p
}

// Stored returns the JSON object of a match.
func Stored(m *match.Match) api.Stored {
	s := api.Stored{Distance: m.Distance, ID: m.ID, Fingerprint: m.Fingerprint,
		Shingles: m.Shingles, Digest: m.Digest, Tokens: m.Tokens, Added: m.Added}
	s.Key, s.KeyBytes = Split(m.Key)
	s.Scope, s.ScopeBytes = Split(m.Scope)
	return s
}

// Match is the inverse of Stored.
func Match(s *api.Stored) match.Match {
	return match.Match{Distance: s.Distance, Document: match.Document{
		ID: s.ID, Key: join(s.Key, s.KeyBytes), Fingerprint: s.Fingerprint, Shingles: s.Shingles,
		Digest: s.Digest, Tokens: s.Tokens,
		Scope: join(s.Scope, s.ScopeBytes), Added: s.Added,
	}}
}

// Checked returns the JSON object of a verdict on a document.
func Checked(key string, fp *fingerprint.Fingerprint, v *api.Verdict) api.Checked {
	c := api.Checked{Verdict: v.Status, Near: v.Near, Removed: v.Removed, Reason: v.Reason}
	c.Key, c.KeyBytes = Split(key)
	if v.Status != api.Skipped {
		c.Fingerprint = fp
	}
	if v.Of.ID != 0 {
		of := Stored(&v.Of)
		c.Of = &of
	}
	return c
}

// Verdict is the inverse of Checked.
func Verdict(c *api.Checked) api.Verdict {
	v := api.Verdict{Status: c.Verdict, Near: c.Near, Removed: c.Removed, Reason: c.Reason}
	if c.Of != nil {
		v.Of = Match(c.Of)
	}
	return v
}

// OfPage returns the JSON object of a page.
func OfPage(p *api.Page) api.Document {
	d := api.Document{ContentType: p.ContentType, Kind: map[page.Kind]string{page.HTML: "html",
		page.PlainText: "text"}[p.Kind], Body: p.Body}
	if d.Body == nil {
		d.Body = []byte{}
	}
	d.Key, d.KeyBytes = Split(p.URL)
	d.Scope, d.ScopeBytes = Split(p.Scope)
	return d
}

// OfDocument returns the JSON object of a document that is already analyzed.
func OfDocument(d *match.Document) api.Document {
	a := api.Document{Fingerprint: &d.Fingerprint, Shingles: d.Shingles, Digest: d.Digest,
		Tokens: d.Tokens}
	a.Key, a.KeyBytes = Split(d.Key)
	a.Scope, a.ScopeBytes = Split(d.Scope)
	return a
}

// OfQuery returns the JSON object of a query.
func OfQuery(q *match.Query) api.Document {
	d := api.Document{Fingerprint: &q.Fingerprint, Shingles: q.Shingles, Tokens: q.Tokens,
		Limit: q.Limit}
	d.Scope, d.ScopeBytes = Split(q.Scope)
	switch {
	case q.MaxDistance == match.Exact:
		d.MaxDistance = new(int)
	case q.MaxDistance != 0:
		d.MaxDistance = &q.MaxDistance
	}
	return d
}
