package corpus

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"
)

func TestJSONFields(t *testing.T) {
	line := `{"url":"u","uri":"v","html":"h","body":"<html>b","site":"s","scope":"t","simhash":"00000000000000ff","fingerprint":"1"}`
	records := readString(t, Options{Fields: Fields{Key: "uri", Content: "body", Scope: "site"}},
		line)
	check(t, records, "v html <html>b")
	if records[0].Scope != "s" || records[0].ContentType != "text/html; charset=utf-8" {
		t.Errorf("scope %q, type %q", records[0].Scope, records[0].ContentType)
	}
	check(t, readString(t, Options{Fields: Fields{Key: "a.b.c", Content: "a.d"}},
		`{"a":{"b":{"c":"k","d":"x"},"d":"y","e":{"d":"z"}}}`), "k text y")
	check(t, readString(t, Options{Fields: Fields{Content: "a"}},
		`{"url":"u","a":{"b":"x"},"a.b":"y"}`), "u lost no content")
	check(t, readString(t, Options{Fields: Fields{Content: "none"}}, `{"url":"u","html":"h"}`),
		"u lost no content")
}

func TestLineSizes(t *testing.T) {
	line := func(n int) string {
		return `{"url":"u","text":"` +
			strings.Repeat("x", n) + `"}` + "\n"
	}
	opts := Options{MaxDocument: 1000}
	check(t, readString(t, opts, line(1000)+line(1001)+line(70_000)+line(1)),
		"u text "+strings.Repeat("x", 1000), "u lost too large", " lost too large", "u text x")
	records := readString(t, opts, line(70_000)+line(1))
	if records[0].Skip.Detail != "more than 69536 bytes" || records[1].Offset != 70_022 {
		t.Errorf("%v, then offset %d", records[0].Skip, records[1].Offset)
	}
}

// TestFields tests that the reader and encoding/json find the same fields in a line.
func TestFields(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SampledFrom([]string{"url", "id", "key", "html", "main", "text", "content",
			"scope", "fingerprint", "request", "response", "endpoint", "body", "markdown",
			"raw_markdown", "x", "\u00fcrl", "a\"\\"})
		object := rapid.MapOf(names, rapid.OneOf(
			rapid.String().AsAny(), rapid.Int64().AsAny(), rapid.Bool().AsAny(),
			rapid.Just(any(nil)),
			rapid.SliceOf(rapid.String()).AsAny(), rapid.MapOf(names, rapid.Float64()).AsAny(),
			rapid.MapOf(names, rapid.String()).AsAny(),
		)).Draw(t, "object")
		line, err := json.Marshal(object)
		must(t, err)
		if rapid.Bool().Draw(t, "indented") {
			var b bytes.Buffer
			json.Indent(&b, line, "\t", " ")
			line = b.Bytes()
		}
		compareFields(t, line)
	})
}

// compareFields tests that the reader and encoding/json find the same fields in a line.
func compareFields(t rapid.TB, line []byte) {
	var object map[string]json.RawMessage
	line = withoutNaN(line)
	err := json.Unmarshal(line, &object)
	names := newFieldNames(&Fields{})
	v, failed := names.find(line)
	if valid := err == nil && object != nil; valid != (failed == nil) {
		t.Fatalf("%s: %v; encoding/json: %v", line, failed, err)
	}
	// encoding/json has other rules for duplicate names and for invalid UTF-8
	if failed != nil || !jsontext.Value(line).IsValid() {
		return
	}
	for field, c := range v {
		want, blank := "", ""
		for _, name := range names.names[field] {
			value := bytes.TrimSpace(valueAt(object, name))
			if len(value) == 0 || value[0] != '"' && value[0] != '-' &&
				(value[0] < '0' || value[0] > '9') {
				continue
			}
			if want = string(value); value[0] == '"' {
				json.Unmarshal(value, &want)
			}
			if field == int(contentField) && isBlank(value) { // any other content is better
				if blank == "" {
					blank = want
				}
				want = ""
				continue
			}
			break
		}
		if want == "" {
			want = blank
		}
		if c.name == "matches" {
			continue
		}
		if got := string(c.text()); got != want {
			t.Errorf("%s: %q is %q, want %q", line, names.names[field], got, want)
		}
	}
}

// valueAt returns the value of a field with a name, or of a nested field with a dot in its name.
func valueAt(object map[string]json.RawMessage, name string) json.RawMessage {
	if value, ok := object[name]; ok {
		return value
	}
	outer, inner, nested := strings.Cut(name, ".")
	var within map[string]json.RawMessage
	if !nested || json.Unmarshal(object[outer], &within) != nil {
		return nil
	}
	return valueAt(within, inner)
}
