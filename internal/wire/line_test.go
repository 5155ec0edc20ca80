package wire

import "testing"

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
