package wire

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/neardup/neardup/fingerprint"
)

// full has a value with each field set, of each type of line.
func full() []any {
	hostile := "https://example.com/?a=1&b=<2>"
	stored := Stored{
		Key: hostile, KeyBytes: []byte("\xff\x00"), Distance: 3, ID: 1<<63 + 1, Fingerprint: 0xfedcba9876543210, Shingle: 7, Tokens: 100,
		Scope: "example.com", ScopeBytes: []byte("\xfe"), Added: time.Unix(1_700_000_000, 123_000_000).UTC(),
	}
	return []any{
		&Line{
			Key: hostile, KeyBytes: []byte("\xff"), HTML: new("<p>\n"), Text: new("\u009b\u2028\x7f\"\\"), Body: []byte("body"), ContentType: "text/html",
			Kind: "html", Fingerprint: new(fingerprint.Fingerprint(1)), Shingle: 2, Tokens: -3, Scope: "a\x1fé\xff", ScopeBytes: []byte{0},
			MaxDistance: new(-1), Limit: 9,
		},
		&Checked{
			Key: hostile, KeyBytes: []byte("\xff"), Fingerprint: new(fingerprint.Fingerprint(1)), Verdict: Changed, Of: &stored, Near: true, Retried: true,
			Reason: "not text: \u0085",
		},
		&Found{
			Key: hostile, KeyBytes: []byte("\xff"), Fingerprint: new(fingerprint.Fingerprint(1)), Matches: []Stored{stored, {}}, More: true, Reason: "none",
		},
	}
}

// Lines are written as encoding/json writes them.
func TestAppend(t *testing.T) {
	for _, whole := range full() {
		v := reflect.ValueOf(whole).Elem()
		checkAppend(t, whole)
		for i := range v.NumField() {
			field := v.Field(i)
			if field.IsZero() {
				t.Fatalf("%T: %s is not set", whole, v.Type().Field(i).Name)
			}
			alone := reflect.New(v.Type())
			alone.Elem().Field(i).Set(field)
			checkAppend(t, alone.Interface())
			field.SetZero()
			checkAppend(t, whole)
		}
	}
	late := Checked{Of: &Stored{Added: time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)}}
	if got, err := late.Append([]byte("a")); err == nil || string(got) != "a" {
		t.Errorf("%s, %v", got, err)
	}
}

func checkAppend(t *testing.T, v any) {
	t.Helper()
	if f, is := v.(*Found); is && f.Matches == nil {
		f.Matches = []Stored{} // as FoundOf makes it
	}
	want, err := Encode(v)
	if err != nil {
		return // a year of five digits
	}
	got := []byte("before ")
	switch v := v.(type) {
	case *Line:
		got = v.Append(got)
	case *Checked:
		got, err = v.Append(got)
	case *Found:
		got, err = v.Append(got)
	}
	if err != nil || string(got) != "before "+string(want) {
		t.Errorf("%T: %s, %v\nwant %s", v, got, err, want)
	}
}

// What is read without encoding/json is what encoding/json reads, and is written as it would write it.
func FuzzParse(f *testing.F) {
	for _, v := range full() {
		line, err := Encode(v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(line)
	}
	for _, line := range []string{
		` {"key" : "é", "tokens": 1}	\r\n`, `{"key":"a","key":"b","of":{"id":1,"key":"c"},"of":{"id":2}}`, `{"Key":"a"}`, `{"key":"a\xff"}`, `{"key":null}`,
		`{"matches":[{"id":1},{"id":2}],"matches":[{"tokens":1}],"more":false}`, `{"matches":[]} {`, `{"tokens":01}`, `{"tokens":1e2}`, `{"limit":-1}`, `{"limit":9999999999999999999}`,
		`{"maxDistance":0,"fingerprint":"12","shingle":"0x1f"}`, `{"fingerprint":"","verdict":"no verdict"}`, `{"body":"","keyBytes":"_w=="}`, `{"near":truefalse}`,
		`{"added":"2026-02-30T00:00:00Z"}`, `{"key":"a",}`, `{,}`, `[]`, `{`, ``, `{"key":"\ud800"}`, `{"near":true,"retried":false,"of":{"added":"2026-02-03T04:05:06.7+01:00"}}`,
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var line, wantLine Line
		compareParsed(t, raw, &line, &wantLine, line.Parse(raw), wantLine.parseAny(raw))
		var checked, wantChecked Checked
		compareParsed(t, raw, &checked, &wantChecked, checked.Parse(raw), json.Unmarshal(raw, &wantChecked))
		var found, wantFound Found
		compareParsed(t, raw, &found, &wantFound, found.Parse(raw), json.Unmarshal(raw, &wantFound))
	})
}

func compareParsed(t *testing.T, raw []byte, got, want any, err, wantErr error) {
	t.Helper()
	if err != nil || wantErr != nil {
		if err == nil || wantErr == nil || err.Error() != wantErr.Error() {
			t.Fatalf("%q as %T: %v, want %v", raw, got, err, wantErr)
		}
		return
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%q as %T: %+v, want %+v", raw, got, got, want)
	}
	checkAppend(t, got)
}

// Lines that have no escapes are read without encoding/json.
func TestParsePlain(t *testing.T) {
	for _, v := range full() {
		v := reflect.ValueOf(v).Elem()
		for i := range v.NumField() {
			if v.Field(i).Kind() == reflect.String { // no escapes
				v.Field(i).SetString("https://example.com/ä?a=1&b=<2>")
			}
		}
		switch v := v.Addr().Interface().(type) {
		case *Line:
			v.HTML, v.Text, v.Tokens, v.MaxDistance = new("<p>"), new("text"), 3, new(1)
			checkPlain(t, v.Append(nil), v)
		case *Checked:
			v.Of.ID = 1
			line, err := v.Append(nil)
			if err != nil {
				t.Fatal(err)
			}
			checkPlain(t, line, v)
		case *Found:
			v.Matches[0].ID = 1
			line, err := v.Append(nil)
			if err != nil {
				t.Fatal(err)
			}
			checkPlain(t, line, v)
		}
	}
}

func checkPlain[T any, P interface {
	*T
	scan(*scanner)
}](t *testing.T, line []byte, want P) {
	got := P(new(T))
	if !parse(bytes.ReplaceAll(line, []byte(`":`), []byte(`" : `)), got) || !reflect.DeepEqual(got, want) {
		t.Errorf("%s: %+v, want %+v", line, got, want)
	}
}

func TestEscapeControls(t *testing.T) {
	for line, want := range map[string]string{
		"{}\n": "{}\n", "\"a\x7fb\u009b\u00a0é\"\n": `"a\u007fb\u009b` + "\u00a0é\"\n", "\"\u0080\u00bf\"": `"\u0080` + "\u00bf\"",
	} {
		if got := string(EscapeControls([]byte(line))); got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}
