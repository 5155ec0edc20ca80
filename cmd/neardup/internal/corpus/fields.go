package corpus

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/neardup/neardup/fingerprint"
)

// field is the purpose of a field of a JSON record.
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

// bodySimhash is the decimal simhash that httpx computes. It is used only in lists, because it is
// not comparable with the fingerprints of pages.
const bodySimhash = "hash.body_simhash"

// usualFields has the names that crawlers and corpora use. If a record has several of them, the
// first name counts. A dot selects a field of an object.
var usualFields = [fields][]string{
	keyField: {
		// crawlee, httpx, Scrapy, crawl4ai, C4, FineWeb, RedPajama 2
		"url",
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
		// httpx
		"content_type",
		// katana
		"response.headers.content_type", "response.headers.Content-Type",
		"response.headers.content-type",
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
	outputField: {"verdict", "matches"}, // of lines that neardup writes
}

// fieldNames finds the fields of records by their names.
type fieldNames struct {
	names   [fields][]string
	wanted  map[string]bool     // all names
	objects map[string]bool     // names of objects that may have wanted fields
	found   [fields]atomic.Bool // in any record
}

func newFieldNames(named *Fields) *fieldNames {
	f := &fieldNames{names: usualFields, wanted: make(map[string]bool),
		objects: make(map[string]bool)}
	for field, name := range map[field]string{keyField: named.Key, scopeField: named.Scope,
		contentField: named.Content} {
		if name != "" {
			f.names[field] = []string{name}
		}
	}
	for _, names := range f.names {
		for _, name := range names {
			f.wanted[name] = true
			for at, c := range name {
				if c == '.' {
					f.objects[name[:at]] = true
				}
			}
		}
	}
	return f
}

// missing returns the message about a record without any of the fields that it may have.
func (f *fieldNames) missing(list bool) string {
	if list {
		return fmt.Sprintf("no field %s", strings.Join(f.names[fingerprintField], ", "))
	}
	return fmt.Sprintf("no string field %s: --content-field selects another field",
		strings.Join(f.names[contentField], ", "))
}

// value is a field of a record. The zero value means that the record has no such field.
type value struct {
	name  string
	value jsontext.Value // a string or a number
}

// values are the fields of a record.
type values [fields]value

// status returns the HTTP status of the page in a record, or 0 if it has none. Programs that have
// only floating-point numbers, such as pandas, write it as 404.0.
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
		verdicts := []string{"new", "duplicate", "unchanged", "changed", "skipped"}
		return slices.Contains(verdicts, string(out.text())) && v[keyField].value != nil
	}
	return false
}

// newDecoder returns a decoder of a record that allows duplicate names and, in a string, half of a
// surrogate pair.
func newDecoder(record []byte) *jsontext.Decoder {
	return jsontext.NewDecoder(bytes.NewBuffer(record), jsontext.AllowDuplicateNames(true),
		jsontext.AllowInvalidUTF8(true))
}

// find returns the fields of a record, which must be one object. It reads each run of bytes that
// are not UTF-8 as U+FFFD, and NaN and infinite numbers, which Python writes, as null.
func (f *fieldNames) find(record []byte) (*values, error) {
	v, err := f.findIn(record)
	if err != nil {
		if fixed := withoutNaN(record); !bytes.Equal(fixed, record) {
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
		return nil, errors.New("not a JSON object")
	}
	all := make(map[string]jsontext.Value)
	if err := f.read(d, record, "", all); err != nil {
		return nil, err
	}
	if _, err := d.ReadToken(); err != io.EOF {
		return nil, errors.New("data after the JSON object")
	}
	v := new(values)
	for i := range v {
		if v[i] = f.choose(field(i), all); v[i].value != nil && !f.found[i].Load() {
			f.found[i].Store(true)
		}
	}
	return v, nil
}

// choose returns the value of the first name of field n that a record has. A content of white space
// is used only if there is no other content.
func (f *fieldNames) choose(n field, all map[string]jsontext.Value) (blank value) {
	for _, name := range f.names[n] {
		switch found, ok := all[name]; {
		case !ok:
		case n != contentField || !isBlank(found):
			return value{name, found}
		case blank.value == nil:
			blank = value{name, found}
		}
	}
	return blank
}

var stringOrNaN = regexp.MustCompile(`(?s)"(?:[^"\\]|\\.)*"|-?Infinity|NaN`)

// withoutNaN replaces NaN, Infinity and -Infinity outside of strings by null.
func withoutNaN(record []byte) []byte {
	return stringOrNaN.ReplaceAllFunc(record, func(token []byte) []byte {
		if token[0] == '"' {
			return token
		}
		return []byte("null")
	})
}

// read reads an object, and the objects in it that may have wanted fields, into all. The dots in
// the names bound the nesting of these objects. If a name occurs twice, the last value counts.
func (f *fieldNames) read(
	d *jsontext.Decoder, record []byte, path string, all map[string]jsontext.Value,
) error {
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
			if err := f.read(d, record, name+".", all); err != nil {
				return err
			}
			continue
		}
		value, err := d.ReadValue()
		if err != nil {
			return err
		}
		kind := value.Kind()
		if f.wanted[name] && (kind == '"' || kind == '0' || kind == '[' && name == "matches") {
			end := int(d.InputOffset())
			// the value itself is in the buffer of the decoder
			all[name] = record[end-len(value) : end]
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

// text returns a new slice with the text of a string, or the digits of a number. It returns nil if
// there is no value.
func (v *value) text() []byte {
	if v.value.Kind() != '"' {
		return v.value
	}
	// An error means half of a surrogate pair, which is U+FFFD.
	text, _ := jsontext.AppendUnquote(make([]byte, 0, len(v.value)), v.value)
	return text
}

// fingerprint parses a fingerprint. A number is decimal, however many digits it has.
func (v *value) fingerprint() (fingerprint.Fingerprint, error) {
	text := string(v.text())
	if v.value.Kind() != '"' || v.name == bodySimhash {
		return parseDecimal(text)
	}
	return parseFingerprint(text)
}
