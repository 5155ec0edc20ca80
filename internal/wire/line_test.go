package wire

import (
	"fmt"
	"strings"
	"testing"
)

// Keys that are different on the way in are different when they are read, or the line is skipped.
func TestParseLineKeys(t *testing.T) {
	for line, want := range map[string]string{
		`{"key":"a\ud800"}`: "", `{"key":"a\udcff"}`: "", `{"key":"\udc00\ud800"}`: "", `{"scope":"\ud800\u0041"}`: "", `{"key":"\\\ud8ff"}`: "",
		`{"key":"a\ufffd"}`: "a\ufffd", `{"key":"\ud83d\ude00\ufffd"}`: "\U0001f600\ufffd", `{"key":"\\ud800\ufffd"}`: `\ud800` + "\ufffd",
		`{"key":"a\ufffd","scope":null}`: "a\ufffd", `{"keyBytes":"Yf8="}`: "a\xff", `{"key":"b","text":"\ud800"}`: "b",
	} {
		var l Line
		err := l.Parse([]byte(line))
		if (err != nil) != (want == "") || err == nil && l.Name() != want {
			t.Errorf("%s: %+v, %v, want %q", line, l, err, want)
		}
	}
	if err := new(Line).Parse([]byte("{\"key\":\"a\xff\"}")); err == nil {
		t.Error("a key that is not UTF-8 is read")
	}
}

// What is wrong with a line is said in words of JSON, and its key is known where it is JSON.
func TestParseLineErrors(t *testing.T) {
	for line, want := range map[string]string{
		`{"key":"a","tokens":"x"}`:                     `"a": tokens: want a whole number, got string`,
		`{"tokens":1.5,"key":"a"}`:                     `"a": tokens: want a whole number, got number 1.5`,
		`{"tokens":9223372036854775808}`:               `"": tokens: want a whole number, got number 9223372036854775808`,
		`{"key":5}`:                                    `"": key: want a string, got number`,
		`{"key":"a","html":["x"]}`:                     `"a": html: want a string, got array`,
		`{"key":"a","body":"***"}`:                     `"a": body: want base64, got string`,
		`{"key":"a","fingerprint":5}`:                  `"a": fingerprint: want 16 hex digits, got number`,
		`{"key":"a","shingle":"xyz","fingerprint":"1"`: `"": not a line of JSON: unexpected end of JSON input`,
		`{"key":"a","shingle":"xyz","fingerprint":""}`: `"a": not a fingerprint: "xyz"; want 16 hex digits`,
		`[1]`: `"": not a line of JSON: want an object, got array`,
	} {
		var l Line
		err := l.Parse([]byte(line))
		if got := fmt.Sprintf("%q: %v", l.Name(), err); err == nil || !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s; want %s", line, got, want)
		}
	}
}
