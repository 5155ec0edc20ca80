package wire

import (
	"fmt"
	"strings"
	"testing"

	"github.com/neardup/neardup/client/api"
	"github.com/neardup/neardup/fingerprint/page"
)

// TestParseLineKeys tests that different keys stay different, or the line is malformed.
func TestParseLineKeys(t *testing.T) {
	for line, want := range map[string]string{
		`{"key":"a\ud800"}`: "", `{"key":"a\udcff"}`: "", `{"key":"\udc00\ud800"}`: "",
		`{"scope":"\ud800\u0041"}`: "", `{"key":"\\\ud8ff"}`: "",
		`{"key":"a\ufffd"}`: "a\ufffd", `{"key":"\ud83d\ude00\ufffd"}`: "\U0001f600\ufffd",
		`{"key":"\\ud800\ufffd"}`:        `\ud800` + "\ufffd",
		`{"key":"a\ufffd","scope":null}`: "a\ufffd", `{"keyBytes":"Yf8="}`: "a\xff",
		`{"key":"b","text":"\ud800"}`: "",
	} {
		var l api.Document
		err := Parse([]byte(strings.Replace(line, "{", `{"html":"",`, 1)), &l)
		if (err != nil) != (want == "") || err == nil && l.Key != want {
			t.Errorf("%s: %+v, %v, want %q", line, l, err, want)
		}
	}
	if err := Parse([]byte("{\"key\":\"a\xff\"}"), new(api.Document)); err == nil {
		t.Error("a key that is not UTF-8 is read")
	}
}

// TestParseLineErrors tests that errors describe the fault in terms of JSON.
func TestParseLineErrors(t *testing.T) {
	for line, want := range map[string]string{
		`{"key":"a","tokens":"x"}`:                       `tokens must not be a string`,
		`{"tokens":1.5,"key":"a"}`:                       `tokens: invalid syntax`,
		`{"tokens":9223372036854775808}`:                 `tokens: value out of range`,
		`{"key":5}`:                                      `key must not be a number`,
		`{"id":[5]}`:                                     `id: want a string or a number`,
		`{"id":7,"url":"b","text":"c"}`:                  `two keys, "b" and "7": give one of`,
		`{"key":"a","html":["x"]}`:                       `html must not be an array`,
		`{"key":"a","body":"***"}`:                       `body: illegal base64 data at input byte 0`,
		`{"key":"a","fingerprint":5}`:                    `fingerprint: JSON value must be string type`,
		`{"key":"a","digest":"1","fingerprint":"1"`:      `not JSON: `,
		`{"key":"a","shingles":"xyz","fingerprint":"1"}`: `shingles: not a fingerprint: "xyz"; want the 64 hex digits of a shingle signature`,
		`[1]`:                               `not a JSON object but an array`,
		`{"scop":"s","key":"a","text":"b"}`: `unknown field "scop": the document is in html, text, content, body`,
		`{"key":"a","Text":"b"}`:            `unknown field "Text"`,
		`{"key":"a","text":"b","response":{"body":"c"}}`: `unknown field "response"`,
		`{"key":"a","text":"b","text":"c"}`:              `the field "text" is repeated`,
		`{"key":"a","text":"b","tokens":NaN}`:            `not JSON: byte 3`,
		`{"key":"a","text":"b","limit":-Infinity}`:       `not JSON: byte 3`,
		`{"key":"a","url":"b","text":"c"}`:               `two keys, "a" and "b": give one of`,
		`{"key":"a"}`:                                    `no document: want html, text, content, body or fingerprint`,
		`{"key":"a","text":"b","limit":-1}`:              `limit is -1, want 0 or more`,
		`{"key":"a","body":"","kind":"pdf"}`:             `kind is "pdf", want html or text`,
		"{\"key\":\"a\xff\",\"text\":\"b\"}":             `not UTF-8`,
	} {
		var l api.Document
		err := Parse([]byte(line), &l)
		if got := fmt.Sprint(err); err == nil || !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s; want %s", line, got, want)
		}
	}
}

// TestParseLineFields tests that the fields of a line give its key and its page.
func TestParseLineFields(t *testing.T) {
	for line, want := range map[string]string{
		`{"url":"https://a.example/","text":"b"}`:            `"https://a.example/" plain text "b"`,
		`{"key":"a","url":"a","keyBytes":"YQ==","text":"b"}`: `"a" plain text "b"`,
		`{"id":"7","text":"b"}`:                              `"7" plain text "b"`,
		`{"id":7.50,"text":"b"}`:                             `"7.50" plain text "b"`,
		`{"id":null,"url":"a","text":"b"}`:                   `"a" plain text "b"`,
		`{"key":"a","content":"<!DOCTYPE html><p>b"}`:        `"a" HTML "<!DOCTYPE html><p>b"`,
		`{"key":"a","content":"b"}`:                          `"a" plain text "b"`,
		`{"key":"a","html":"","content":"b"}`:                `"a" plain text "b"`,
		`{"key":"a","content":"b","kind":"html"}`:            `"a" HTML "b"`,
		`{"key":"a","html":"","text":"b"}`:                   `"a" plain text "b"`,
		`{"key":"a","html":"<p>b","text":"c"}`:               `"a" HTML "<p>b"`,
		"\ufeff{\"key\":\"a\",\"text\":\"b\"}\r":             `"a" plain text "b"`,
	} {
		var l api.Document
		err := Parse([]byte(line), &l)
		p := Page(&l)
		kind := map[page.Kind]string{page.HTML: "HTML", page.PlainText: "plain text"}[p.Kind]
		if got := fmt.Sprintf("%q %s %q", p.URL, kind, p.Body); err != nil || got != want {
			t.Errorf("%s: %s, %v; want %s", line, got, err, want)
		}
	}
}
