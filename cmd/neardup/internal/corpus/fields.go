package corpus

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/neardup/neardup/fingerprint"
)

// field is what a field of JSON lines is for.
type field uint8

const (
	keyField field = iota
	scopeField
	contentField
	typeField
	fingerprintField
	statusField
	outputField
	fields
)

// bodySimhash is httpx's own simhash, which is read into lists only: it is none of a page's
// analyzer here. It is decimal.
const bodySimhash = "hash.body_simhash"

// usualFields are the names that crawlers and corpora use, those first that count before
// the others where a record has several. A dot leads into an object.
var usualFields = [fields][]string{
	keyField: {
		"url",                          // crawlee, httpx, Scrapy, crawl4ai, C4, FineWeb, RedPajama 2
		"id",                           // datatrove, Dolma
		"key",                          // neardup
		"request.endpoint",             // katana -jsonl
		"metadata.sourceURL",           // firecrawl
		"metadata.url",                 // datatrove without id
		"meta.url",                     // RedPajama 1
		"warc_headers.warc-target-uri", // OSCAR
	},
	scopeField: {"scope"},
	contentField: {
		"html", "main", "text", "content", // crawlee, C4, FineWeb, datatrove, OSCAR
		"rawHtml", "markdown", // firecrawl
		"markdown.raw_markdown", "cleaned_html", // crawl4ai
		"raw_content",   // RedPajama 2
		"response.body", // katana -jsonl
		"body",          // httpx -json -include-response, Scrapy
	},
	typeField: {
		"content_type",                                                                                    // httpx
		"response.headers.content_type", "response.headers.Content-Type", "response.headers.content-type", // katana
	},
	fingerprintField: {"fingerprint", bodySimhash},
	statusField: {
		"redirected_status_code", "status_code", // crawl4ai, httpx
		"response.status_code",                        // katana
		"metadata.statusCode", "metadata.status_code", // firecrawl
		"crawl.httpStatusCode", "httpStatusCode", // Apify
		"response.statusCode", "response.status", // others
		"statusCode", "http_status", "httpStatus", "status", // Scrapy
	},
	outputField: {"verdict", "matches"}, // of lines that neardup wrote
}

// fieldNames finds fields by their names.
type fieldNames struct {
	names   [fields][]string
	wanted  map[string][]wanted // by the way to a field, with a dot between names
	objects map[string]bool     // that lead to one

	found [fields]atomic.Bool // by any record
}

// wanted is a field and the rank of one of its names: the greater the better.
type wanted struct {
	field field
	rank  int
}

func newFieldNames(named *Fields) *fieldNames {
	f := &fieldNames{names: usualFields, wanted: make(map[string][]wanted), objects: make(map[string]bool)}
	for field, name := range map[field]string{keyField: named.Key, scopeField: named.Scope, contentField: named.Content} {
		if name != "" {
			f.names[field] = []string{name}
		}
	}
	for n, names := range f.names {
		for i, name := range names {
			f.wanted[name] = append(f.wanted[name], wanted{field(n), len(names) - i})
			for at, c := range name {
				if c == '.' {
					f.objects[name[:at]] = true
				}
			}
		}
	}
	return f
}

// missing says which fields a record might have had.
func (f *fieldNames) missing(list bool) string {
	if list {
		return fmt.Sprintf("there is no field %s", strings.Join(f.names[fingerprintField], ", "))
	}
	return fmt.Sprintf("there is no string field %s; --content-field names another one", strings.Join(f.names[contentField], ", "))
}

// values are the fields that were found of a record.
type values [fields]choice

// status returns the HTTP status of the page in a record, 0 if it names none. Programs that have only
// floating-point numbers, such as pandas, write it as 404.0.
func (v *values) status() int {
	status, err := strconv.Atoi(strings.TrimSuffix(string(v[statusField].text()), ".0"))
	if err != nil || status < 100 || status > 599 {
		return 0
	}
	return status
}

// isOutput reports whether a record is a line that neardup wrote about a document.
func (v *values) isOutput() bool {
	switch out := &v[outputField]; {
	case out.name == "matches":
		return v[fingerprintField].value != nil && out.value.Kind() == '['
	case out.value.Kind() == '"':
		return slices.Contains([]string{"new", "duplicate", "unchanged", "changed", "skipped"}, string(out.text())) && v[keyField].value != nil
	}
	return false
}

// newDecoder returns a decoder of a record that allows duplicate names and, in a string, half of a surrogate
// pair.
func newDecoder(record []byte) *jsontext.Decoder {
	return jsontext.NewDecoder(bytes.NewBuffer(record), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// find reads a record, which must be one object, and picks the fields out of it. Each run of bytes that are
// not UTF-8 is U+FFFD. NaN and infinite numbers, which Python writes, are null.
func (f *fieldNames) find(record []byte) (*values, error) {
	v, err := f.findIn(record)
	if err != nil {
		if fixed, found := withoutNaN(record); found {
			return f.findIn(fixed)
		}
	}
	return v, err
}

func (f *fieldNames) findIn(record []byte) (*values, error) {
	if !utf8.Valid(record) {
		record = bytes.ToValidUTF8(record, []byte("\uFFFD"))
	}
	d := newDecoder(record)
	if kind := d.PeekKind(); kind != '{' && kind != 0 {
		return nil, fmt.Errorf("it is not an object")
	}
	v := new(values)
	if err := f.object(d, record, "", v); err != nil {
		return nil, err
	}
	if _, err := d.ReadToken(); err != io.EOF {
		return nil, fmt.Errorf("something follows the object")
	}
	for i := range v {
		if v[i].value != nil && !f.found[i].Load() {
			f.found[i].Store(true)
		}
	}
	return v, nil
}

var notNumbers = [][]byte{[]byte("-Infinity"), []byte("Infinity"), []byte("NaN")}

// withoutNaN replaces NaN, Infinity and -Infinity outside of strings by null, and reports whether there were
// any.
func withoutNaN(record []byte) (fixed []byte, found bool) {
	inString := false
	for i := 0; i < len(record); i++ {
		c := record[i]
		switch {
		case inString && c == '\\':
			fixed = append(fixed, c)
			i++
		case c == '"':
			inString = !inString
		case !inString && (c == 'N' || c == 'I' || c == '-'):
			if n := slices.IndexFunc(notNumbers, func(word []byte) bool { return bytes.HasPrefix(record[i:], word) }); n >= 0 {
				fixed = append(fixed, "null"...)
				i += len(notNumbers[n]) - 1
				found = true
				continue
			}
		}
		if i < len(record) {
			fixed = append(fixed, record[i])
		}
	}
	return fixed, found
}

// object reads an object, and those in it that may have wanted fields. There are no more of
// them on the way to a field than its name has dots.
func (f *fieldNames) object(d *jsontext.Decoder, record []byte, path string, v *values) error {
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	for d.PeekKind() == '"' {
		token, err := d.ReadToken()
		if err != nil {
			return err
		}
		name := path + token.String()
		if d.PeekKind() == '{' && f.objects[name] {
			if err := f.object(d, record, name+".", v); err != nil {
				return err
			}
			continue
		}
		value, err := d.ReadValue()
		if err != nil {
			return err
		}
		if kind := value.Kind(); kind != '"' && kind != '0' && (kind != '[' || name != "matches") {
			continue
		}
		for _, w := range f.wanted[name] {
			rank := w.rank
			if w.field == contentField && isBlank(value) {
				rank -= len(f.names[contentField]) // any other content is better
			}
			if c := &v[w.field]; rank >= c.rank || c.value == nil {
				end := int(d.InputOffset())
				*c = choice{rank, name, record[end-len(value) : end]} // what the decoder gives is its own
			}
		}
	}
	_, err := d.ReadToken() // the closing brace
	return err
}

// isBlank reports whether a value is a string of white space.
func isBlank(value jsontext.Value) bool {
	if len(value) > 100 || value.Kind() != '"' {
		return false
	}
	text, _ := jsontext.AppendUnquote(nil, value)
	return len(bytes.TrimSpace(text)) == 0
}

// choice is the best of the fields found: of several names the first, of fields of one name
// the last.
type choice struct {
	rank  int
	name  string
	value jsontext.Value // a string or a number
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

// fingerprint reads a fingerprint. A number is decimal, however many digits it has.
func (c *choice) fingerprint() (fingerprint.Fingerprint, error) {
	if text := string(c.text()); c.value.Kind() != '"' || c.name == bodySimhash {
		return parseDecimal(text)
	} else {
		return parseFingerprint(text)
	}
}
