package wire

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	json "github.com/go-json-experiment/json/v1"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/fingerprint/page"
	"github.com/neardup/neardup/internal/match"
)

// Line is one document that is checked or asked for: a page as html, text or body, or a fingerprint.
type Line struct {
	Key      string `json:"key,omitempty"`
	KeyBytes []byte `json:"keyBytes,omitempty"` // instead of Key, if it is not UTF-8

	HTML        *string `json:"html,omitempty"`
	Text        *string `json:"text,omitempty"`
	Body        []byte  `json:"body,omitzero"` // of a page in any charset
	ContentType string  `json:"contentType,omitempty"`
	Kind        string  `json:"kind,omitempty"` // of Body: html or text; empty: what ContentType and Body say

	Fingerprint *fingerprint.Fingerprint `json:"fingerprint,omitempty"`
	Shingle     fingerprint.Fingerprint  `json:"shingle,omitzero"`
	Digest      fingerprint.Digest       `json:"digest,omitzero"`
	Tokens      int                      `json:"tokens,omitempty"`

	Scope      string `json:"scope,omitempty"`
	ScopeBytes []byte `json:"scopeBytes,omitempty"`

	MaxDistance *int `json:"maxDistance,omitempty"` // of a query: nil: that of the index
	Limit       int  `json:"limit,omitempty"`       // of a query: 0: all
}

// errNoContent is of a line that has no document in it.
var errNoContent = errors.New("no document: want html, text, body or fingerprint")

// Parse reads a line. The error is why it is skipped.
func (l *Line) Parse(raw []byte) error {
	*l = Line{}
	if !utf8.Valid(raw) {
		return errors.New("not UTF-8: give keyBytes and body in base64")
	}
	if err := Decode(raw, l); err != nil {
		return Explain(err)
	}
	if strings.ContainsRune(l.Key, utf8.RuneError) || strings.ContainsRune(l.Scope, utf8.RuneError) {
		var names struct{ Key, Scope jsontext.Value }
		if err := Decode(raw, &names); err != nil || hasSurrogate(names.Key) || hasSurrogate(names.Scope) {
			return errors.New("key or scope has a surrogate alone, which is no character: give keyBytes or scopeBytes in base64")
		}
	}
	return nil
}

// Explain says what is wrong with a line of JSON, in the words of docs/api.md: its decoder speaks of types of Go.
func Explain(err error) error {
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.Is(err, fingerprint.ErrSyntax):
		return err
	case !errors.As(err, &wrong):
		return fmt.Errorf("not a line of JSON: %w", err)
	case wrong.Field == "":
		return fmt.Errorf("not a line of JSON: want an object, got %s", wrong.Value)
	}
	return fmt.Errorf("%s: want %s, got %s", wrong.Field, wanted(wrong.Type), wrong.Value)
}

// wanted is what the value of a field is to be.
func wanted(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[fingerprint.Fingerprint](), t == reflect.TypeFor[fingerprint.Digest]():
		return "16 hex digits"
	case t.Kind() == reflect.Slice:
		return "base64"
	case t.Kind() == reflect.String:
		return "a string"
	}
	return "a whole number"
}

// hasSurrogate reports whether a value of JSON, which is UTF-8, is a string that has half of a pair of surrogates, of which Decode
// makes U+FFFD: keys that differ in it would be one.
func hasSurrogate(value jsontext.Value) bool {
	_, err := jsontext.AppendUnquote(nil, value)
	return err != nil && value.Kind() == '"' // or it is null, or not there
}

// Decode is that of encoding/json, by its next version, which takes a quarter of its time.
func Decode(raw []byte, into any) error { return json.Unmarshal(raw, into) }

// Name is the key.
func (l *Line) Name() string { return either(l.Key, l.KeyBytes) }

// inScope is the scope.
func (l *Line) inScope() string { return either(l.Scope, l.ScopeBytes) }

func either(text string, bytes []byte) string {
	if text == "" {
		return string(bytes)
	}
	return text
}

// Split returns a key or scope as the two fields of a line that hold it: text if it is UTF-8, bytes otherwise.
func Split(s string) (text string, bytes []byte) {
	if utf8.ValidString(s) {
		return s, nil
	}
	return "", []byte(s)
}

// Document is that of a line with a fingerprint.
func (l *Line) Document() match.Document {
	return match.Document{Key: l.Name(), Fingerprint: *l.Fingerprint, Shingle: l.Shingle, Digest: l.Digest, Tokens: l.Tokens, Scope: l.inScope()}
}

var kinds = map[string]page.Kind{"": 0, "html": page.HTML, "text": page.PlainText}

// ParseKind reads the name of a kind of page.
func ParseKind(name string) (page.Kind, error) {
	kind, known := kinds[name]
	if !known {
		return 0, fmt.Errorf("kind is %.40q, want html or text", name)
	}
	return kind, nil
}

// KindName undoes ParseKind.
func KindName(kind page.Kind) string {
	for name, k := range kinds {
		if k == kind {
			return name
		}
	}
	return ""
}

// Page is that of a line without a fingerprint.
func (l *Line) Page() (p Page, err error) {
	p = Page{URL: l.Name(), Scope: l.inScope(), ContentType: l.ContentType, Body: l.Body}
	switch {
	case l.HTML != nil:
		p.Body, p.Kind, p.ContentType = []byte(*l.HTML), page.HTML, "text/html; charset=utf-8"
	case l.Text != nil:
		p.Body, p.Kind, p.ContentType = []byte(*l.Text), page.PlainText, "text/plain; charset=utf-8"
	case l.Body == nil:
		return p, errNoContent
	default:
		p.Kind, err = ParseKind(l.Kind)
	}
	return p, err
}

// PageLine is the line of a page.
func PageLine(p *Page) Line {
	l := Line{ContentType: p.ContentType, Kind: KindName(p.Kind), Body: p.Body}
	l.Key, l.KeyBytes = Split(p.URL)
	l.Scope, l.ScopeBytes = Split(p.Scope)
	if l.Body == nil {
		l.Body = []byte{}
	}
	return l
}

// DocumentLine is the line of a document that is analyzed already.
func DocumentLine(d *match.Document) Line {
	l := Line{Fingerprint: &d.Fingerprint, Shingle: d.Shingle, Digest: d.Digest, Tokens: d.Tokens}
	l.Key, l.KeyBytes = Split(d.Key)
	l.Scope, l.ScopeBytes = Split(d.Scope)
	return l
}

// QueryLine is the line of a query.
func QueryLine(q *match.Query) Line {
	l := Line{Fingerprint: &q.Fingerprint, Shingle: q.Shingle, Tokens: q.Tokens, Limit: q.Limit}
	l.Scope, l.ScopeBytes = Split(q.Scope)
	switch {
	case q.MaxDistance == match.Exact:
		l.MaxDistance = new(int)
	case q.MaxDistance != 0:
		l.MaxDistance = &q.MaxDistance
	}
	return l
}

// Stored is a document of the index, in what is answered.
type Stored struct {
	Key         string                  `json:"key"`
	KeyBytes    []byte                  `json:"keyBytes,omitempty"`
	Distance    int                     `json:"distance"`
	ID          uint64                  `json:"id,omitempty"`
	Fingerprint fingerprint.Fingerprint `json:"fingerprint"`
	Shingle     fingerprint.Fingerprint `json:"shingle,omitzero"`
	Digest      fingerprint.Digest      `json:"digest,omitzero"`
	Tokens      int                     `json:"tokens,omitempty"`
	Scope       string                  `json:"scope,omitempty"`
	ScopeBytes  []byte                  `json:"scopeBytes,omitempty"`
	Added       time.Time               `json:"added,omitzero"`
}

// StoredOf is a match in an answer.
func StoredOf(m *match.Match) Stored {
	s := Stored{Distance: m.Distance, ID: m.ID, Fingerprint: m.Fingerprint, Shingle: m.Shingle, Digest: m.Digest, Tokens: m.Tokens, Added: m.Added}
	s.Key, s.KeyBytes = Split(m.Key)
	s.Scope, s.ScopeBytes = Split(m.Scope)
	return s
}

// Match undoes StoredOf.
func (s *Stored) Match() match.Match {
	return match.Match{Distance: s.Distance, Document: match.Document{
		ID: s.ID, Key: either(s.Key, s.KeyBytes), Fingerprint: s.Fingerprint, Shingle: s.Shingle, Digest: s.Digest, Tokens: s.Tokens,
		Scope: either(s.Scope, s.ScopeBytes), Added: s.Added,
	}}
}

// Checked is the answer to a line that is checked.
type Checked struct {
	Key         string                   `json:"key"`
	KeyBytes    []byte                   `json:"keyBytes,omitempty"`
	Fingerprint *fingerprint.Fingerprint `json:"fingerprint,omitempty"`
	Verdict     Status                   `json:"verdict"`
	Of          *Stored                  `json:"of,omitempty"`
	Near        bool                     `json:"near,omitempty"`
	Removed     bool                     `json:"removed,omitempty"`
	Retried     bool                     `json:"retried,omitempty"`
	Reason      string                   `json:"reason,omitempty"`
}

// CheckedOf is the answer that a verdict on a document is.
func CheckedOf(key string, fp *fingerprint.Fingerprint, v *Verdict) Checked {
	c := Checked{Verdict: v.Status, Near: v.Near, Removed: v.Removed, Retried: v.Retried, Reason: v.Reason}
	c.Key, c.KeyBytes = Split(key)
	if v.Status != Skipped {
		c.Fingerprint = fp
	}
	if v.Of.ID != 0 {
		of := StoredOf(&v.Of)
		c.Of = &of
	}
	return c
}

// AsVerdict undoes CheckedOf.
func (c *Checked) AsVerdict() Verdict {
	v := Verdict{Status: c.Verdict, Near: c.Near, Removed: c.Removed, Retried: c.Retried, Reason: c.Reason}
	if c.Of != nil {
		v.Of = c.Of.Match()
	}
	return v
}

// Found is the answer to a line that is asked for.
type Found struct {
	Key         string                   `json:"key"`
	KeyBytes    []byte                   `json:"keyBytes,omitempty"`
	Fingerprint *fingerprint.Fingerprint `json:"fingerprint,omitempty"`
	Matches     []Stored                 `json:"matches"`
	More        bool                     `json:"more,omitempty"`   // matches were left out
	Reason      string                   `json:"reason,omitempty"` // why it is skipped
}

// FoundOf is the answer to a query for a document.
func FoundOf(key string, fp *fingerprint.Fingerprint, matches []match.Match) Found {
	f := Found{Fingerprint: fp, Matches: make([]Stored, len(matches))}
	f.Key, f.KeyBytes = Split(key)
	for i := range matches {
		f.Matches[i] = StoredOf(&matches[i])
	}
	return f
}

// AsMatches undoes FoundOf.
func (f *Found) AsMatches() []match.Match {
	var matches []match.Match
	for i := range f.Matches {
		matches = append(matches, f.Matches[i].Match())
	}
	return matches
}

// Headers of HTTP that are of this protocol.
const (
	// NextID of an answer is an ID that no document had when the call was answered, unless it
	// was stored shortly before.
	NextID = "Neardup-Next-Id"

	// Since of a call says that it is tried again, and that the first try was begun when NextID was
	// this: an earlier self with this ID or a later one may be of that try.
	Since = "Neardup-Since"
)

// JSONLines is the media type of lines.
const JSONLines = "application/x-ndjson"
