package corpus

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/neardup/neardup/fingerprint"
)

// lineFactor is how much longer than Options.MaxDocument a line may be:
// escapes and other fields take room.
const lineFactor = 4

// jsonLines reads an object a line.
func (s *source) jsonLines() {
	limit := lineFactor*s.opts.MaxDocument + 64<<10
	reader := &jsonReader{fields: s.opts.Fields, maxDocument: s.opts.MaxDocument}
	s.lines(int(limit), func(offset int64, line []byte, size int64) bool {
		if line == nil {
			return s.skip(offset, "", tooLarge(size, limit))
		}
		if offset == 0 {
			line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
		}
		if len(bytes.TrimSpace(line)) == 0 {
			return true
		}
		line = bytes.Clone(line)
		return s.sendUnparsed(&Unparsed{record: Record{Offset: offset}, bytes: cap(line), parse: func(rec *Record) {
			parsed := reader.record(line)
			parsed.Source, parsed.Number, parsed.Offset = rec.Source, rec.Number, rec.Offset
			*rec = parsed
		}})
	})
}

// jsonReader is for any number of goroutines.
type jsonReader struct {
	fields      Fields
	maxDocument int64
}

// record makes a record of a line.
func (r *jsonReader) record(line []byte) (rec Record) {
	skip := func(reason, detail string, err error) Record {
		return Record{Key: rec.Key, Scope: rec.Scope, Skip: &Skip{Reason: reason, Detail: detail, Document: true, Err: err}}
	}
	if !validJSON(line) {
		var value json.RawMessage
		err := json.Unmarshal(line, &value)
		return skip("bad json", fmt.Sprint(err), err)
	}
	if bytes.TrimLeft(line, " \t\r")[0] != '{' {
		return skip("bad json", "the line is not an object", nil)
	}
	values := r.find(line)
	rec.Key = string(values.key.text())
	rec.Scope = string(values.scope.text())
	if values.fingerprint != nil && (values.content == nil || r.fields.Fingerprint != "") {
		fp, err := fingerprint.Parse(string(values.fingerprint.text()))
		if err != nil {
			return skip("bad fingerprint", err.Error(), err)
		}
		rec.Kind, rec.Fingerprint = Fingerprint, fp
		return rec
	}
	if values.content == nil || values.content[0] != '"' {
		return skip("no content", "the line has no string field "+r.contentNames(), nil)
	}
	rec.Content = values.content.text()
	switch size := int64(len(rec.Content)); {
	case size == 0:
		return skip("empty", "", nil)
	case size > r.maxDocument:
		large := tooLarge(size, r.maxDocument)
		return skip(large.Reason, large.Detail, nil)
	}
	rec.Kind, rec.ContentType = r.kind(values.contentName, rec.Content)
	return rec
}

// kind of a content field: by its name if that says it, else by its content.
func (r *jsonReader) kind(name string, content []byte) (Kind, string) {
	kind := Text
	switch name {
	case "html":
		kind = HTML
	case "text", "main":
	default:
		if sniffed, _ := sniff(content); sniffed == HTML {
			kind = HTML
		}
	}
	if kind == HTML {
		return HTML, "text/html; charset=utf-8"
	}
	return Text, "text/plain; charset=utf-8"
}

// The fields that an empty name in Fields stands for.
var (
	keyNames         = []string{"url", "id", "key"}
	contentNames     = []string{"html", "main", "text", "content"}
	scopeNames       = []string{"scope"}
	fingerprintNames = []string{"fingerprint"}
)

func (r *jsonReader) contentNames() string {
	if r.fields.Content != "" {
		return fmt.Sprintf("%q", r.fields.Content)
	}
	return fmt.Sprintf("%q", contentNames)
}

// values are what was found of a line, each the JSON of a string or a number.
type values struct {
	key, scope, content, fingerprint jsonValue
	contentName                      string
}

// find picks the fields out of a line that is a valid object.
func (r *jsonReader) find(line []byte) (v values) {
	key := choice{named: r.fields.Key, usual: keyNames}
	scope := choice{named: r.fields.Scope, usual: scopeNames}
	content := choice{named: r.fields.Content, usual: contentNames}
	print := choice{named: r.fields.Fingerprint, usual: fingerprintNames}
	for name, value := range members(line) {
		if !value.isText() {
			continue
		}
		key.offer(name, value)
		scope.offer(name, value)
		content.offer(name, value)
		print.offer(name, value)
	}
	return values{key.value, scope.value, content.value, print.value, content.name}
}

// choice keeps the best of the fields offered.
type choice struct {
	named string
	usual []string
	rank  int // of the field kept, counted down: the first name is the best
	name  string
	value jsonValue
}

func (c *choice) offer(name []byte, value jsonValue) {
	if c.named != "" {
		if string(name) == c.named {
			c.name, c.value = c.named, value
		}
		return
	}
	for i, usual := range c.usual {
		if rank := len(c.usual) - i; rank >= c.rank && string(name) == usual {
			c.rank, c.name, c.value = rank, usual, value
			return
		}
	}
}
