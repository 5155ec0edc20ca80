package wire

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/neardup/neardup/client/api"
	"github.com/neardup/neardup/fingerprint"
)

// full returns a value of each type of line, with each field set.
func full() []any {
	hostile := "https://example.com/?a=1&b=<2>"
	stored := api.Stored{
		Key: hostile, KeyBytes: []byte("\xff\x00"), Distance: 3, ID: 1<<63 + 1,
		Fingerprint: 0xfedcba9876543210, Shingles: fingerprint.ShingleSignature{7},
		Digest: 8, Tokens: 100,
		Scope: "example.com", ScopeBytes: []byte("\xfe"),
		Added: time.Unix(1_700_000_000, 123_000_000).UTC(),
	}
	return []any{
		&api.Document{
			Key: hostile, KeyBytes: []byte("\xff"), URL: hostile, HTML: new("<p>\n"),
			Text: new("\u009b\u2028\x7f\"\\"), Body: []byte("body"), ContentType: "text/html",
			ID: api.Name(hostile), Content: new("c"), Kind: "html",
			Fingerprint: new(fingerprint.Fingerprint(1)), Shingles: fingerprint.ShingleSignature{2},
			Digest: 4, Tokens: -3, Scope: "a\x1fé", ScopeBytes: []byte{0},
			MaxDistance: new(-1), Limit: 9,
		},
		&api.Checked{
			Key: hostile, KeyBytes: []byte("\xff"), Fingerprint: new(fingerprint.Fingerprint(1)),
			Verdict: api.Changed, Of: &stored, Near: true, Removed: true,
			Reason: "not text: \u0085",
		},
		&api.Found{
			Key: hostile, KeyBytes: []byte("\xff"), Fingerprint: new(fingerprint.Fingerprint(1)),
			Matches: []api.Stored{stored, {}}, More: true, Reason: "none",
		},
	}
}

// TestAppend compares the encoding of each object, with and without each of its fields, with
// encoding/json. Decoding must return the same object.
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
	late := &api.Checked{Verdict: api.New,
		Of: &api.Stored{Added: time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)}}
	if got, err := Append([]byte("a"), late); err == nil || string(got) != "a" {
		t.Errorf("a document of the year 10000: %s, %v", got, err)
	}
}

func checkAppend(t *testing.T, v any) {
	t.Helper()
	if f, is := v.(*api.Found); is && f.Matches == nil {
		f.Matches = []api.Stored{} // as in the answers of the server
	}
	var plain bytes.Buffer
	e := json.NewEncoder(&plain)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	got, err := Append([]byte("before "), v)
	if want := escapeControls([]byte("before "+plain.String()), 0); err != nil ||
		!bytes.Equal(got, want) {
		t.Errorf("%T: %s, %v\nwant %s", v, got, err, want)
	}
	read := reflect.New(reflect.TypeOf(v).Elem()).Interface()
	if c, is := v.(*api.Checked); is && c.Verdict == 0 {
		return // the zero Status has no JSON
	}
	if err := jsonv2.Unmarshal(got[len("before "):], read); err != nil ||
		!reflect.DeepEqual(read, v) {
		t.Errorf("%s is read as %+v, %v; want %+v", got, read, err, v)
	}
}

// FuzzParse tests that an object does not change if it is decoded and encoded again.
func FuzzParse(f *testing.F) {
	for _, v := range full() {
		line, err := Encode(v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, v := range []any{new(api.Document), new(api.Checked), new(api.Found)} {
			if jsonv2.Unmarshal(raw, v) != nil {
				continue
			}
			line, err := Encode(v)
			if err != nil {
				t.Fatalf("%s is read and cannot be written: %v", raw, err)
			}
			again := reflect.New(reflect.TypeOf(v).Elem()).Interface()
			err = jsonv2.Unmarshal(line, again)
			if rewritten, _ := Encode(again); err != nil || !bytes.Equal(rewritten, line) {
				t.Errorf("%s is written as %s, and then as %s, %v", raw, line, rewritten, err)
			}
		}
		Parse(raw, new(api.Document))
	})
}

func TestEscapeControls(t *testing.T) {
	for line, want := range map[string]string{
		"{}\n": "{}\n", "\"a\x7fb\u009b\u00a0é\"\n": `"a\u007fb\u009b` + "\u00a0é\"\n",
		"\"\u0080\u00bf\"":  `"\u0080` + "\u00bf\"",
		"\"\u202efdp.exe\"": `"\u202efdp.exe"`, "\"\u2013\u2064\"": "\"\u2013\u2064\"",
		"\"\u061c\"": `"\u061c"`, "\"\u2066\u2069\"": `"\u2066\u2069"`, "\"\u200f\"": `"\u200f"`,
	} {
		if got := string(escapeControls([]byte("\x7f"+line), 1)); got != "\x7f"+want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}
