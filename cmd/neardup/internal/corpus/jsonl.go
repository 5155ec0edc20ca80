package corpus

import (
	"bytes"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/neardup/neardup/fingerprint"
)

// lineFactor is how much longer than Options.MaxDocument a line may be:
// escapes and other fields take room.
const lineFactor = 4

// jsonLines reads an object a line.
func (s *source) jsonLines() {
	limit := lineFactor*s.opts.MaxDocument + 64<<10
	opts := &s.opts
	var buf []byte
	for more := true; more; {
		if cap(buf) > 1<<20 && len(buf) < cap(buf)/8 {
			buf = nil // do not hold on to what one long line took
		}
		offset := s.w.pos
		var size int64
		var whole bool
		buf, size, whole = s.w.line(buf[:0], int(limit))
		if !whole {
			if c := s.w.corruption(); c != nil {
				s.skip(offset, "", c.skip("; what follows was not read"))
				return
			}
			more = false
		}
		line := buf
		if offset == 0 {
			line = bytes.TrimPrefix(line, []byte(byteOrderMark))
		}
		switch {
		case size > limit:
			more = s.skip(offset, "", tooLarge(size, limit)) && more
		case len(bytes.TrimSpace(line)) > 0:
			line = bytes.Clone(line)
			parse := func(rec *Record) { rec.setJSON(line, opts) }
			more = s.sendRaw(&RawRecord{record: Record{Offset: offset}, bytes: cap(line), parse: parse}) && more
		}
	}
}

// setJSON makes a document, or a skip, of a line of JSON.
func (rec *Record) setJSON(line []byte, opts *Options) {
	skip := func(reason, detail string, err error) {
		rec.Skip = &Skip{Reason: reason, Detail: detail, Document: true, Err: err}
	}
	values, err := findFields(line, &opts.Fields)
	if err != nil {
		skip("bad json", err.Error(), err)
		return
	}
	rec.Key, rec.Scope = string(values.key.text()), string(values.scope.text())
	if values.fingerprint.value != nil && (values.content.value == nil || opts.Fields.Fingerprint != "") {
		fp, err := fingerprint.Parse(string(values.fingerprint.text()))
		if err != nil {
			skip("bad fingerprint", err.Error(), err)
			return
		}
		rec.Kind, rec.Fingerprint = Fingerprint, fp
		return
	}
	if values.content.value.Kind() != '"' {
		skip("no content", fmt.Sprintf("the line has no string field %q", values.content.names), nil)
		return
	}
	content := values.content.text()
	switch size := int64(len(content)); {
	case size == 0:
		skip("empty", "", nil)
	case size > opts.MaxDocument:
		rec.Skip = tooLarge(size, opts.MaxDocument)
	default:
		rec.Content = content
		rec.Kind, rec.ContentType = kindOfField(values.content.name, content)
	}
}

// kindOfField is what a content field holds: by its name if that says it, else by its content.
func kindOfField(name string, content []byte) (kind Kind, contentType string) {
	switch name {
	case "html":
		kind = HTML
	case "main", "text":
		kind = Text
	default:
		kind, _ = classify("", content)
	}
	if kind == HTML {
		return HTML, "text/html; charset=utf-8"
	}
	return Text, "text/plain; charset=utf-8"
}

// values are the fields that were found of a line.
type values struct{ key, scope, content, fingerprint choice }

// findFields reads a line, which has to be one object, and picks the fields out of it. Each
// run of bytes that are not UTF-8 is U+FFFD.
func findFields(line []byte, named *Fields) (*values, error) {
	if !utf8.Valid(line) {
		line = bytes.ToValidUTF8(line, []byte("\uFFFD"))
	}
	v := &values{
		key:         choiceOf(named.Key, "url", "id", "key"),
		scope:       choiceOf(named.Scope, "scope"),
		content:     choiceOf(named.Content, "html", "main", "text", "content"),
		fingerprint: choiceOf(named.Fingerprint, "fingerprint"),
	}
	d := jsontext.NewDecoder(bytes.NewBuffer(line), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) // that is: a surrogate alone
	if kind := d.PeekKind(); kind != '{' && kind != 0 {
		return nil, fmt.Errorf("the line is not an object")
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	for d.PeekKind() == '"' {
		token, err := d.ReadToken()
		if err != nil {
			return nil, err
		}
		name := token.String()
		value, err := d.ReadValue()
		if err != nil {
			return nil, err
		}
		if kind := value.Kind(); kind != '"' && kind != '0' {
			continue
		}
		end := int(d.InputOffset())
		value = line[end-len(value) : end] // what the decoder gives is its own
		for _, c := range []*choice{&v.key, &v.scope, &v.content, &v.fingerprint} {
			c.offer(name, value)
		}
	}
	if _, err := d.ReadToken(); err != nil { // the closing brace
		return nil, err
	}
	if _, err := d.ReadToken(); err != io.EOF {
		return nil, fmt.Errorf("something follows the object")
	}
	return v, nil
}

// choice keeps the best of the fields offered: of several names the first, of fields of one
// name the last.
type choice struct {
	names []string
	rank  int // of the field kept, counted down
	name  string
	value jsontext.Value // a string or a number
}

// choiceOf chooses a field by its name, or by the usual names where it has none.
func choiceOf(name string, usual ...string) choice {
	if name != "" {
		usual = []string{name}
	}
	return choice{names: usual}
}

func (c *choice) offer(name string, value jsontext.Value) {
	for i, known := range c.names {
		if rank := len(c.names) - i; rank >= c.rank && name == known {
			c.rank, c.name, c.value = rank, name, value
		}
	}
}

// text is the text of a string, in memory of its own, or the digits of a number; nil for no
// value.
func (c *choice) text() []byte {
	if c.value.Kind() != '"' {
		return c.value
	}
	text, _ := jsontext.AppendUnquote(make([]byte, 0, len(c.value)), c.value) // an error is of a surrogate alone, which is U+FFFD
	return text
}
