package wire

import (
	"fmt"
	"strings"
	"testing"

	"github.com/neardup/neardup/client/api"
	"github.com/neardup/neardup/fingerprint/page"
)

// TestParse compares the key and the page of each line, or the error. No two keys may become equal
// because of invalid Unicode.
func TestParse(t *testing.T) {
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
		`{"key":"a","html":"<p>b","text":"c"}`:               `"a" HTML "<p>b"`,
		"\ufeff{\"key\":\"a\",\"text\":\"b\"}\r":             `"a" plain text "b"`,

		`{"html":"","key":"a\ufffd"}`:               "\"a\ufffd\" HTML \"\"",
		`{"html":"","key":"\ud83d\ude00\ufffd"}`:    "\"\U0001f600\ufffd\" HTML \"\"",
		`{"html":"","key":"\\ud800\ufffd"}`:         `"\\ud800` + "\ufffd\" HTML \"\"",
		`{"html":"","key":"a\ufffd","scope":null}`:  "\"a\ufffd\" HTML \"\"",
		`{"html":"","keyBytes":"Yf8="}`:             `"a\xff" HTML ""`,
		`{"html":"","key":"a\ud800"}`:               ``,
		`{"html":"","key":"a\udcff"}`:               ``,
		`{"html":"","key":"\udc00\ud800"}`:          ``,
		`{"html":"","scope":"\ud800\u0041"}`:        ``,
		`{"html":"","key":"\\\ud8ff"}`:              ``,
		`{"html":"","key":"b","text":"\ud800"}`:     ``,
		"{\"html\":\"\",\"key\":\"a\xff\"}":         ``,
		"{\"key\":\"a\xff\",\"text\":\"b\"}":        `not UTF-8`,
		`{"key":"a","tokens":"x"}`:                  `tokens must not be a string`,
		`{"tokens":1.5,"key":"a"}`:                  `tokens: invalid syntax`,
		`{"tokens":9223372036854775808}`:            `tokens: value out of range`,
		`{"key":5}`:                                 `key must not be a number`,
		`{"id":[5]}`:                                `id: want a string or a number`,
		`{"id":7,"url":"b","text":"c"}`:             `two keys, "b" and "7": give one of`,
		`{"key":"a","url":"b","text":"c"}`:          `two keys, "a" and "b": give one of`,
		`{"key":"a","html":["x"]}`:                  `html must not be an array`,
		`{"key":"a","body":"***"}`:                  `body: illegal base64 data at input byte 0`,
		`{"key":"a","fingerprint":5}`:               `fingerprint: JSON value must be string type`,
		`{"key":"a","digest":"1","fingerprint":"1"`: `not JSON: `,
		`{"key":"a","shingles":"xyz","fingerprint":"1"}`: `shingles: not a fingerprint: "xyz"; ` +
			`want the 64 hex digits of a shingle signature`,
		`[1]`:                               `not a JSON object but an array`,
		`{"scop":"s","key":"a","text":"b"}`: `unknown field "scop": the document is in html`,
		`{"key":"a","Text":"b"}`:            `unknown field "Text"`,
		`{"key":"a","text":"b","response":{"body":"c"}}`: `unknown field "response"`,
		`{"key":"a","text":"b","text":"c"}`:              `the field "text" is repeated`,
		`{"key":"a","text":"b","tokens":NaN}`:            `not JSON: byte 3`,
		`{"key":"a"}`:                                    `no document: want html, text`,
		`{"key":"a","text":"b","limit":-1}`:              `limit is -1, want 0 or more`,
		`{"key":"a","body":"","kind":"pdf"}`:             `kind is "pdf", want html or text`,
	} {
		var l api.Document
		err := Parse([]byte(line), &l)
		p := Page(&l)
		kind := map[page.Kind]string{page.HTML: "HTML", page.PlainText: "plain text"}[p.Kind]
		got := fmt.Sprintf("%q %s %q", p.URL, kind, p.Body)
		if err != nil {
			got = err.Error()
		}
		if valid := strings.HasPrefix(want, `"`); (err == nil) != valid || valid && got != want ||
			!strings.HasPrefix(got, want) {
			t.Errorf("%s: %s; want %s", line, got, want)
		}
	}
}
