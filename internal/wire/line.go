package wire

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/fingerprint/page"
	"github.com/neardup/neardup/internal/match"
)

// Line is one document that is checked or queried: a page as html, text, content or body, or a fingerprint.
type Line struct {
	// At most one of these names the document, or all of them have the same value.
	Key      string `json:"key,omitempty"`
	KeyBytes []byte `json:"keyBytes,omitempty"` // base64, for a key that is not UTF-8
	URL      string `json:"url,omitempty"`      // as crawlers write it
	ID       id     `json:"id,omitempty"`       // as data sets write it

	HTML        *string `json:"html,omitempty"`
	Text        *string `json:"text,omitempty"`
	Content     *string `json:"content,omitempty"` // HTML or text, as ContentType says or Content looks like
	Body        []byte  `json:"body,omitzero"`     // a page in any charset
	ContentType string  `json:"contentType,omitempty"`
	Kind        string  `json:"kind,omitempty"` // of Content or Body: html or text; if empty, ContentType and the page decide

	Fingerprint *fingerprint.Fingerprint     `json:"fingerprint,omitempty"`
	Shingles    fingerprint.ShingleSignature `json:"shingles,omitzero"`
	Digest      fingerprint.Digest           `json:"digest,omitzero"`
	Tokens      int                          `json:"tokens,omitempty"`

	Scope      string `json:"scope,omitempty"`
	ScopeBytes []byte `json:"scopeBytes,omitempty"`

	MaxDistance *int `json:"maxDistance,omitempty"` // of a query; if nil, k of the index
	Limit       int  `json:"limit,omitempty"`       // of a query; if zero, there is none
}

// id is a key that may be a number in JSON, whose digits are then the key.
type id string

func (i *id) UnmarshalJSON(raw []byte) error {
	switch value := jsontext.Value(raw); value.Kind() {
	case '"':
		text, err := jsontext.AppendUnquote(nil, value)
		*i = id(text)
		return err
	case '0':
		*i = id(raw)
	case 'n':
		*i = ""
	default:
		return errNotID
	}
	return nil
}

var errNotID = errors.New("want a string or a number")

// contents are the fields that a document is read from.
const contents = "html, text, content, body or fingerprint"

var byteOrderMark = []byte("\ufeff")

// Parse reads a line. An error describes the malformed part; if the line is an object of JSON, l has its key all the same.
func (l *Line) Parse(raw []byte) error {
	*l = Line{}
	raw = bytes.TrimPrefix(raw, byteOrderMark)
	if !utf8.Valid(raw) {
		return errors.New("the line is not UTF-8: give keyBytes and body in base64")
	}
	if err := json.Unmarshal(raw, l, strict); err != nil {
		var names struct {
			Key      string `json:"key"`
			KeyBytes []byte `json:"keyBytes"`
			URL      string `json:"url"`
			ID       id     `json:"id"`
		}
		_ = json.Unmarshal(raw, &names, jsontext.AllowDuplicateNames(true)) // as far as it can be read
		l.Key = cmp.Or(names.Key, string(names.KeyBytes), names.URL, string(names.ID))
		return explain(raw, err)
	}
	for _, name := range []string{string(l.KeyBytes), l.URL, string(l.ID)} {
		if name != "" && l.Key != "" && name != l.Key {
			return fmt.Errorf("two keys, %.80q and %.80q: give one of key, keyBytes, url and id", l.Key, name)
		}
		l.Key = cmp.Or(l.Key, name)
	}
	if l.Limit < 0 {
		return fmt.Errorf("limit is %d, want 0 or more", l.Limit)
	}
	if l.Fingerprint == nil && l.HTML == nil && l.Text == nil && l.Content == nil && l.Body == nil {
		return errors.New("no document: want " + contents)
	}
	_, err := ParseKind(l.Kind)
	return err
}

// strict refuses unknown and repeated fields.
var strict = json.RejectUnknownMembers(true)

// explain describes the error in a line of JSON with the terms of docs/api.md instead of Go's.
func explain(raw []byte, err error) error {
	var syntax *jsontext.SyntacticError
	var wrong *json.SemanticError
	switch {
	case errors.As(err, &syntax) && errors.Is(err, jsontext.ErrDuplicateName):
		return fmt.Errorf("the field %q is there twice", syntax.JSONPointer.LastToken())
	case errors.As(err, &syntax):
		if at := raw[min(int(syntax.ByteOffset), len(raw)):]; notNumber.Match(at) {
			return fmt.Errorf("not JSON: byte %d: NaN and Infinity are not JSON; write null, or leave the field out", syntax.ByteOffset)
		}
		return fmt.Errorf("not JSON: byte %d: %w", syntax.ByteOffset, syntax.Err)
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return fmt.Errorf("not JSON: the object does not end on its line: %w", io.ErrUnexpectedEOF)
	case !errors.As(err, &wrong):
		return fmt.Errorf("not JSON: %w", err)
	}
	got := kindNames[wrong.JSONKind]
	if wrong.JSONKind == '0' && len(wrong.JSONValue) > 0 {
		got += fmt.Sprintf(" %.40s", wrong.JSONValue)
	}
	field := wrong.JSONPointer.LastToken()
	switch {
	case errors.Is(err, json.ErrUnknownName):
		return fmt.Errorf("unknown field %.80q; a document is in %s, its key in key, url or id, and docs/api.md has all fields", field, contents)
	case errors.Is(err, fingerprint.ErrSyntax):
		return fmt.Errorf("%s: %w", field, wrong.Err)
	case field == "":
		return fmt.Errorf("not a JSON object but %s", got)
	}
	return fmt.Errorf("%s: want %s, got %s", field, wanted(wrong.GoType), got)
}

// notNumber matches the names that some writers of JSON give to values that are not numbers.
var notNumber = regexp.MustCompile(`^-?(NaN|Infinity|nan|inf)`)

var kindNames = map[jsontext.Kind]string{'n': "null", 't': "a boolean", 'f': "a boolean", '"': "a string", '0': "a number", '{': "an object", '[': "an array"}

// wanted is what the value of a field is to be.
func wanted(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[fingerprint.Fingerprint](), t == reflect.TypeFor[fingerprint.Digest]():
		return "16 hex digits"
	case t == reflect.TypeFor[id]():
		return "a string or a number"
	case t.Kind() == reflect.Slice:
		return "base64"
	case t.Kind() == reflect.String:
		return "a string"
	}
	return "a whole number"
}

// Decode reads the answer of a server, which may have fields that this version does not know.
func Decode(raw []byte, into any) error { return json.Unmarshal(raw, into) }

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
	return match.Document{Key: l.Key, Fingerprint: *l.Fingerprint, Shingles: l.Shingles, Digest: l.Digest, Tokens: l.Tokens, Scope: l.inScope()}
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

// Page returns the page of a line without a fingerprint. If html or text is empty, the next of html, text, content and
// body that the line has counts.
func (l *Line) Page() Page {
	p := Page{URL: l.Key, Scope: l.inScope(), ContentType: l.ContentType, Kind: kinds[l.Kind], Body: l.Body}
	switch {
	case l.HTML != nil && (*l.HTML != "" || l.Text == nil && l.Content == nil && l.Body == nil):
		p.Body, p.Kind, p.ContentType = []byte(*l.HTML), page.HTML, "text/html; charset=utf-8"
	case l.Text != nil && (*l.Text != "" || l.Content == nil && l.Body == nil):
		p.Body, p.Kind, p.ContentType = []byte(*l.Text), page.PlainText, "text/plain; charset=utf-8"
	case l.Content != nil:
		p.Body = []byte(*l.Content)
		if p.Kind == 0 {
			kind, err := page.KindOf(l.ContentType, p.Body)
			if err != nil {
				return p // which reports the invalid text
			}
			p.Kind = kind
		}
		p.ContentType = "text/html; charset=utf-8"
	}
	return p
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
	l := Line{Fingerprint: &d.Fingerprint, Shingles: d.Shingles, Digest: d.Digest, Tokens: d.Tokens}
	l.Key, l.KeyBytes = Split(d.Key)
	l.Scope, l.ScopeBytes = Split(d.Scope)
	return l
}

// QueryLine is the line of a query.
func QueryLine(q *match.Query) Line {
	l := Line{Fingerprint: &q.Fingerprint, Shingles: q.Shingles, Tokens: q.Tokens, Limit: q.Limit}
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
	Key         string                       `json:"key"`
	KeyBytes    []byte                       `json:"keyBytes,omitempty"`
	Distance    int                          `json:"distance"`
	ID          uint64                       `json:"id,omitempty"`
	Fingerprint fingerprint.Fingerprint      `json:"fingerprint"`
	Shingles    fingerprint.ShingleSignature `json:"shingles,omitzero"`
	Digest      fingerprint.Digest           `json:"digest,omitzero"`
	Tokens      int                          `json:"tokens,omitempty"`
	Scope       string                       `json:"scope,omitempty"`
	ScopeBytes  []byte                       `json:"scopeBytes,omitempty"`
	Added       time.Time                    `json:"added,omitzero"`
}

// StoredOf is a match in an answer.
func StoredOf(m *match.Match) Stored {
	s := Stored{Distance: m.Distance, ID: m.ID, Fingerprint: m.Fingerprint, Shingles: m.Shingles, Digest: m.Digest, Tokens: m.Tokens, Added: m.Added}
	s.Key, s.KeyBytes = Split(m.Key)
	s.Scope, s.ScopeBytes = Split(m.Scope)
	return s
}

// Match undoes StoredOf.
func (s *Stored) Match() match.Match {
	return match.Match{Distance: s.Distance, Document: match.Document{
		ID: s.ID, Key: either(s.Key, s.KeyBytes), Fingerprint: s.Fingerprint, Shingles: s.Shingles, Digest: s.Digest, Tokens: s.Tokens,
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
	Reason      string                   `json:"reason,omitempty"`
}

// CheckedOf is the answer that a verdict on a document is.
func CheckedOf(key string, fp *fingerprint.Fingerprint, v *Verdict) Checked {
	c := Checked{Verdict: v.Status, Near: v.Near, Removed: v.Removed, Reason: v.Reason}
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
	v := Verdict{Status: c.Verdict, Near: c.Near, Removed: c.Removed, Reason: c.Reason}
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

// JSONLines is the media type of lines.
const JSONLines = "application/x-ndjson"
