package corpus

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"unicode/utf16"
	"unicode/utf8"

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
		return s.sendRaw(&RawRecord{record: Record{Offset: offset}, bytes: cap(line), parse: func(rec *Record) {
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

// jsonValue is the JSON of one value.
type jsonValue []byte

// isText says whether the value can be read by text: a string or a number.
func (v jsonValue) isText() bool {
	return v[0] == '"' || v[0] == '-' || '0' <= v[0] && v[0] <= '9'
}

// text is the text of a string, in memory of its own, or the digits of a
// number; nil for no value. Bytes that are not UTF-8 become U+FFFD.
func (v jsonValue) text() []byte {
	if len(v) == 0 || v[0] != '"' {
		return v
	}
	return unquote(v[1 : len(v)-1])
}

// members gives the names and values of an object. It relies on the JSON
// being valid, which was checked; a second full parse would only cost time.
func members(object []byte) iter.Seq2[[]byte, jsonValue] {
	return func(yield func([]byte, jsonValue) bool) {
		i := skipSpace(object, 0) + 1
		for {
			i = skipSpace(object, i)
			if object[i] == '}' {
				return
			}
			if object[i] == ',' {
				i = skipSpace(object, i+1)
			}
			end := stringEnd(object, i)
			name := object[i+1 : end-1]
			if bytes.IndexByte(name, '\\') >= 0 {
				name = unquote(name)
			}
			i = skipSpace(object, skipSpace(object, end)+1)
			end = valueEnd(object, i)
			if !yield(name, jsonValue(object[i:end])) {
				return
			}
			i = end
		}
	}
}

func skipSpace(b []byte, i int) int {
	for b[i] == ' ' || b[i] == '\t' || b[i] == '\r' || b[i] == '\n' {
		i++
	}
	return i
}

// stringEnd is the index behind the string that begins at i.
func stringEnd(b []byte, i int) int {
	for i++; ; {
		quote := i + bytes.IndexByte(b[i:], '"')
		slashes := 0
		for quote-slashes > i && b[quote-slashes-1] == '\\' {
			slashes++
		}
		i = quote + 1
		if slashes%2 == 0 {
			return i
		}
	}
}

// valueEnd is the index behind the value that begins at i.
func valueEnd(b []byte, i int) int {
	for depth := 0; ; {
		switch b[i] {
		case '"':
			i = stringEnd(b, i)
			if depth == 0 {
				return i
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		default:
			if depth == 0 {
				return i + bytes.IndexAny(b[i:], ",} \t\r\n")
			}
		}
		i++
	}
}

// unquote undoes the escapes of the inside of a valid JSON string.
func unquote(b []byte) []byte {
	out := make([]byte, 0, len(b))
	for {
		i := bytes.IndexByte(b, '\\')
		if i < 0 {
			out = append(out, b...)
			break
		}
		out = append(out, b[:i]...)
		c := b[i+1]
		b = b[i+2:]
		switch c {
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		case 'u':
			r := hexRune(b)
			b = b[4:]
			if utf16.IsSurrogate(r) {
				if pair := utf16.DecodeRune(r, nextEscape(b)); pair != utf8.RuneError {
					r = pair
					b = b[6:]
				}
			}
			out = utf8.AppendRune(out, r)
		default: // '"', '\\', '/'
			out = append(out, c)
		}
	}
	if !utf8.Valid(out) {
		out = bytes.ToValidUTF8(out, []byte("\uFFFD"))
	}
	return out
}

// hexRune reads four digits of an escape that is valid.
func hexRune(b []byte) rune {
	return hexDigit(b[0])<<12 | hexDigit(b[1])<<8 | hexDigit(b[2])<<4 | hexDigit(b[3])
}

// hexDigit is the value of a digit that is one.
func hexDigit(c byte) rune {
	if c <= '9' {
		return rune(c - '0')
	}
	return rune(c|0x20-'a') + 10
}

// nextEscape is the \u escape that b begins with, or U+FFFD.
func nextEscape(b []byte) rune {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return utf8.RuneError
	}
	return hexRune(b[2:])
}

// validJSON is json.Valid. That takes about twice as long for what lines of pages are
// made of, long strings; here it is asked about the rest only, with "" for each string.
func validJSON(b []byte) bool {
	rest := make([]byte, 0, 256)
	for {
		i := bytes.IndexByte(b, '"')
		if i < 0 {
			return json.Valid(append(rest, b...))
		}
		rest = append(append(rest, b[:i]...), '"', '"')
		size := validString(b[i+1:])
		if size < 0 {
			return false
		}
		b = b[i+1+size:]
	}
}

// validString returns the length of the string that b begins with, behind its first
// quote and with its last one; -1 if it is none.
func validString(b []byte) int {
	for i := 0; i < len(b); i++ {
		for i < len(b) && !jsonSpecial[b[i]] {
			i++
		}
		switch {
		case i == len(b) || b[i] < ' ':
			return -1
		case b[i] == '"':
			return i + 1
		}
		size := escapeSize(b[i+1:])
		if size == 0 {
			return -1
		}
		i += size
	}
	return -1
}

// escapeSize returns the length of an escape behind its backslash, 0 if it is none.
func escapeSize(b []byte) int {
	switch {
	case len(b) == 0:
		return 0
	case b[0] != 'u':
		return min(1, 1+bytes.IndexByte([]byte(`"\/bfnrt`), b[0]))
	case len(b) < 5:
		return 0
	}
	for _, c := range b[1:5] {
		if !isDigit(c) && (c|0x20 < 'a' || c|0x20 > 'f') {
			return 0
		}
	}
	return 5
}

// jsonSpecial are the bytes that do not stand for themselves in a string.
var jsonSpecial = func() (special [256]bool) {
	for c := range ' ' {
		special[c] = true
	}
	special['"'], special['\\'] = true, true
	return special
}()
