package wire

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"unicode"
	"unicode/utf8"

	"github.com/neardup/neardup/fingerprint"
)

// The lines are written as encoding/json writes them, byte for byte, but that it escapes <, > and & as well,
// and that escapeControls follows, in a fraction of its time (BenchmarkLine). TestAppend holds each field to its tag.

// Append appends the line, with its end.
func (l *Line) Append(to []byte) []byte {
	o := object{append(to, '{')}
	o.texts("key", l.Key, "keyBytes", l.KeyBytes)
	if l.HTML != nil {
		o.name("html")
		o.quote(*l.HTML)
	}
	if l.Text != nil {
		o.name("text")
		o.quote(*l.Text)
	}
	if l.Body != nil {
		o.base64("body", l.Body)
	}
	o.text("contentType", l.ContentType)
	o.text("kind", l.Kind)
	if l.Fingerprint != nil {
		o.fingerprint("fingerprint", *l.Fingerprint)
	}
	if l.Shingle != 0 {
		o.fingerprint("shingle", l.Shingle)
	}
	o.number("tokens", l.Tokens)
	o.texts("scope", l.Scope, "scopeBytes", l.ScopeBytes)
	if l.MaxDistance != nil {
		o.name("maxDistance")
		o.to = strconv.AppendInt(o.to, int64(*l.MaxDistance), 10)
	}
	o.number("limit", l.Limit)
	return append(o.to, '}', '\n')
}

// Append appends the line, with its end. It fails where a document was stored in no year of four digits.
func (c *Checked) Append(to []byte) ([]byte, error) {
	o := object{append(to, '{')}
	o.key(c.Key, c.KeyBytes)
	if c.Fingerprint != nil {
		o.fingerprint("fingerprint", *c.Fingerprint)
	}
	o.name("verdict")
	o.quote(c.Verdict.String())
	if c.Of != nil {
		o.name("of")
		if err := o.stored(c.Of); err != nil {
			return to, err
		}
	}
	o.isTrue("near", c.Near)
	o.isTrue("retried", c.Retried)
	o.text("reason", c.Reason)
	return append(o.to, '}', '\n'), nil
}

// Append appends the line, with its end. It fails where a document was stored in no year of four digits.
func (f *Found) Append(to []byte) ([]byte, error) {
	o := object{append(to, '{')}
	o.key(f.Key, f.KeyBytes)
	if f.Fingerprint != nil {
		o.fingerprint("fingerprint", *f.Fingerprint)
	}
	o.name("matches")
	o.to = append(o.to, '[')
	for i := range f.Matches {
		if i > 0 {
			o.to = append(o.to, ',')
		}
		if err := o.stored(&f.Matches[i]); err != nil {
			return to, err
		}
	}
	o.to = append(o.to, ']')
	o.isTrue("more", f.More)
	o.text("reason", f.Reason)
	return append(o.to, '}', '\n'), nil
}

// object appends the members of an object that is begun.
type object struct{ to []byte }

func (o *object) name(name string) {
	if o.to[len(o.to)-1] != '{' {
		o.to = append(o.to, ',')
	}
	o.to = append(o.to, '"')
	o.to = append(o.to, name...)
	o.to = append(o.to, '"', ':')
}

// stored appends an object that is a member.
func (o *object) stored(s *Stored) (err error) {
	o.to = append(o.to, '{')
	o.key(s.Key, s.KeyBytes)
	o.name("distance")
	o.to = strconv.AppendInt(o.to, int64(s.Distance), 10)
	if s.ID != 0 {
		o.name("id")
		o.to = strconv.AppendUint(o.to, s.ID, 10)
	}
	o.fingerprint("fingerprint", s.Fingerprint)
	if s.Shingle != 0 {
		o.fingerprint("shingle", s.Shingle)
	}
	o.number("tokens", s.Tokens)
	o.texts("scope", s.Scope, "scopeBytes", s.ScopeBytes)
	if !s.Added.IsZero() {
		o.name("added")
		o.to = append(o.to, '"')
		o.to, err = s.Added.AppendText(o.to)
		o.to = append(o.to, '"')
	}
	o.to = append(o.to, '}')
	return err
}

// key appends a key, which an answer has even where it is empty.
func (o *object) key(key string, bytes []byte) {
	o.name("key")
	o.quote(key)
	o.texts("", "", "keyBytes", bytes)
}

// texts appends what Split has made, unless it is empty.
func (o *object) texts(name, text, bytesName string, bytes []byte) {
	o.text(name, text)
	if len(bytes) > 0 {
		o.base64(bytesName, bytes)
	}
}

// text appends a string, unless it is empty.
func (o *object) text(name, text string) {
	if text != "" {
		o.name(name)
		o.quote(text)
	}
}

// number appends a number, unless it is 0.
func (o *object) number(name string, n int) {
	if n != 0 {
		o.name(name)
		o.to = strconv.AppendInt(o.to, int64(n), 10)
	}
}

// isTrue appends a boolean, unless it is false.
func (o *object) isTrue(name string, is bool) {
	if is {
		o.name(name)
		o.to = append(o.to, "true"...)
	}
}

func (o *object) fingerprint(name string, f fingerprint.Fingerprint) {
	o.name(name)
	o.to = append(o.to, '"')
	o.to, _ = f.AppendText(o.to)
	o.to = append(o.to, '"')
}

func (o *object) base64(name string, b []byte) {
	o.name(name)
	o.to = append(o.to, '"')
	o.to = base64.StdEncoding.AppendEncode(o.to, b)
	o.to = append(o.to, '"')
}

func (o *object) quote(s string) {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			line, _ := Encode(s) // a string cannot fail
			o.to = append(o.to, line[:len(line)-1]...)
			return
		}
	}
	o.to = append(o.to, '"')
	o.to = append(o.to, s...)
	o.to = append(o.to, '"')
}

// Encode returns a value as a line of JSON that is safe on a terminal.
func Encode(v any) ([]byte, error) {
	var line bytes.Buffer
	e := json.NewEncoder(&line)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return escapeControls(line.Bytes()), nil
}

// controlStarts are what the characters that escapeControls escapes begin with.
var controlStarts = [][]byte{{0x7f}, {0xc2}, {0xd8, 0x9c}, {0xe2, 0x80}, {0xe2, 0x81}}

// escapeControls escapes, in a line of JSON, the characters that encoding/json leaves as they are and some terminals
// act on: DEL, U+0080 to U+009F, and those that change the direction of text. They stand in strings only.
func escapeControls(line []byte) []byte {
	if !slices.ContainsFunc(controlStarts, func(start []byte) bool { return bytes.Contains(line, start) }) {
		return line
	}
	escaped := make([]byte, 0, len(line)+64)
	for _, r := range string(line) {
		if r >= 0x7f && r <= 0x9f || unicode.Is(unicode.Bidi_Control, r) {
			escaped = fmt.Appendf(escaped, `\u%04x`, r)
		} else {
			escaped = utf8.AppendRune(escaped, r)
		}
	}
	return escaped
}
