package corpus

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"
)

func TestJSONLines(t *testing.T) {
	for _, test := range []struct {
		name, line string
		want       []string
	}{
		{"html", `{"url":"u","html":"<p>x"}`, []string{"u html <p>x"}},
		{"text", `{"id":"u","text":"x"}`, []string{"u text x"}},
		{"main", `{"key":"u","main":"<html>x"}`, []string{"u text <html>x"}},
		{"content that is HTML", `{"key":"u","content":"<!DOCTYPE html>x"}`,
			[]string{"u html <!DOCTYPE html>x"}},
		{"content that is text", `{"key":"u","content":"x < y"}`, []string{"u text x < y"}},
		{"the first name counts", `{"key":"k","id":"i","url":"u","text":"t","html":"h","main":"m"}`,
			[]string{"u html h"}},
		{"in any order", `{"html":"h","text":"t","url":"u","id":"i"}`, []string{"u html h"}},
		{"duplicate names: the last counts", `{"url":"a","url":"u","html":"a","html":"h"}`,
			[]string{"u html h"}},
		{"null", `{"url":null,"id":"u","html":null,"text":"t"}`, []string{"u text t"}},
		{"a number as key", `{"id":-12.5e3,"text":"t"}`, []string{"-12.5e3 text t"}},
		{"no key", `{"text":"t"}`, []string{" text t"}},
		{"no content", `{"url":"u","title":"t"}`, []string{"u lost no content"}},
		{"a number as content", `{"url":"u","text":12}`, []string{"u lost no content"}},
		{"empty content", `{"url":"u","text":""}`, []string{"u lost empty"}},
		{"nested fields are ignored",
			`{"url":"u","x":{"text":"a","y":["}",{"text":"b"}]},"text":"t"}`, []string{"u text t"}},
		{"escapes", `{"\u0075rl":"\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00","text":"t"}`,
			[]string{"\"\\/\b\f\n\r\té😀 text t"}},
		{"lone surrogates", `{"url":"\ud83d\u0041\ude00","text":"t"}`,
			[]string{"\uFFFDA\uFFFD text t"}},
		{"not UTF-8", "{\"url\":\"a\xffb\",\"text\":\"t\"}", []string{"a\uFFFDb text t"}},
		{"white space", " { \"url\" :\t\"u\" , \"text\" : \"t\" } \r", []string{"u text t"}},
		{"a fingerprint", `{"key":"u","fingerprint":"0123456789abcdef"}`,
			[]string{"u 0123456789abcdef"}},
		{"a decimal fingerprint", `{"key":"u","fingerprint":18446744073709551615}`,
			[]string{"u ffffffffffffffff"}},
		{"a bad fingerprint", `{"key":"u","fingerprint":"0x"}`, []string{"u lost bad fingerprint"}},
		{"nested",
			`{"request":{"method":"GET","endpoint":"u"},"response":{"headers":{"Content-Type":"text/html"},"body":"x"}}`, []string{"u html x"}},
		{"nested, not text",
			`{"request":{"endpoint":"u"},"response":{"headers":{"content_type":"image/png"},"body":"x"}}`, []string{"u lost not text: image/png"}},
		{"an object instead of a string",
			`{"url":"u","markdown":{"raw_markdown":"m","fit_markdown":"f"},"cleaned_html":"c"}`,
			[]string{"u text m"}},
		{"an object without wanted fields",
			`{"url":"u","request":["x"],"response":{"body":{"x":"y"}},"text":"t"}`,
			[]string{"u text t"}},
		{"a dot in the name", `{"request.endpoint":"u","response.body":"<html>x"}`,
			[]string{"u html <html>x"}},
		{"simhash of httpx", `{"url":"u","hash":{"body_simhash":"1"}}`,
			[]string{"u lost no content"}},
		{"content before a fingerprint", `{"key":"u","fingerprint":"0123456789abcdef","text":"t"}`,
			[]string{"u text t"}},
		{"cut", `{"url":"u","text":"t`, []string{" lost bad json"}},
		{"no object", `["text"]`, []string{" lost bad json"}},
		{"no JSON", `text`, []string{" lost bad json"}},
		{"empty html and text", `{"url":"u","html":"","rawHtml":" \n","text":"t"}`,
			[]string{"u text t"}},
		{"text before empty html", `{"url":"u","text":"t","html":""}`, []string{"u text t"}},
		{"only blank contents", `{"url":"u","html":"","text":""}`, []string{"u lost empty"}},
		{"NaN", `{"url":"u","score":NaN,"x":[Infinity,{"y":-Infinity}],"text":"NaN \"Infinity\" -1"}`, []string{`u text NaN "Infinity" -1`}},
		{"NaN as content", `{"url":"u","text":NaN}`, []string{"u lost no content"}},
		{"NaN and not JSON", `{"url":NaN,"text"}`, []string{" lost bad json"}},
		{"a word like NaN", `{"url":NaNs}`, []string{" lost bad json"}},
		{"a status", `{"url":"u","text":"t","status_code":404}`, []string{"u pass status 404"}},
		{"a status in a response",
			`{"request":{"endpoint":"u"},"response":{"status_code":503,"body":"t"}}`,
			[]string{"u pass status 503"}},
		{"a status in metadata", `{"markdown":"t","metadata":{"sourceURL":"u","statusCode":404}}`,
			[]string{"u pass status 404"}},
		{"a status with a decimal point", `{"url":"u","text":"t","statusCode":410.0}`,
			[]string{"u pass status 410"}},
		{"a status that is text", `{"url":"u","text":"t","status":"404"}`,
			[]string{"u pass status 404"}},
		{"the status after a redirect",
			`{"url":"u","html":"t","status_code":301,"redirected_status_code":200}`,
			[]string{"u html t"}},
		{"not an HTTP status", `{"url":"u","text":"t","status":1}`, []string{"u text t"}},
		{"another status", `{"url":"u","text":"t","status":"completed"}`, []string{"u text t"}},
		{"status 200", `{"url":"u","text":"t","status_code":200,"status":404}`,
			[]string{"u text t"}},
		{"a verdict", `{"key":"u","fingerprint":"0123456789abcdef","verdict":"new"}`,
			[]string{"u pass output of neardup"}},
		{"a verdict of a skipped document",
			`{"key":"u","verdict":"skipped","reason":"empty","at":"x record 1 byte 0"}`,
			[]string{"u pass output of neardup"}},
		{"an answer to a query", `{"key":"u","fingerprint":"0123456789abcdef","matches":[]}`,
			[]string{"u pass output of neardup"}},
		{"a verdict of a court", `{"key":"u","verdict":"new","text":"t"}`, []string{"u text t"}},
		{"another verdict", `{"key":"u","fingerprint":"0123456789abcdef","verdict":"guilty"}`,
			[]string{"u 0123456789abcdef"}},
		{"two values", `{"text":"t"} {}`, []string{" lost bad json"}},
		{"nested without end", strings.Repeat("[", 100_000), []string{" lost bad json"}},
		{"blank lines", "\n\r\n  \n", nil},
		{"a mark", "\xef\xbb\xbf{\"url\":\"u\",\"text\":\"t\"}", []string{"u text t"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			last := `{"url":"last","text":"t"}`
			want := append(test.want, "last text t")
			for _, end := range []string{"\n", "\r\n"} {
				check(t, readString(t, Options{Format: JSONL}, test.line+end+last), want...)
				check(t, readString(t, Options{Format: JSONL}, gzipped(test.line+end+last+end)),
					want...)
			}
		})
	}
}

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

// An array and a sequence of objects over several lines are read object by object.
func TestJSONValues(t *testing.T) {
	const a, b = `{"url":"a","text":"\"]}, x"}`, `{"url":"b",` + "\n" + `"x":[{"y":[]}],"text":"t"}`
	const readA, readB = `a text "]}, x`, "b text t"
	bad, cut := " lost bad json", " lost truncated json"
	for _, test := range []struct {
		name, input string
		want        []string
	}{
		{"an array", "[" + a + ",\n" + b + "]\n", []string{readA, readB}},
		{"a mark", byteOrderMark + " [" + a + "]", []string{readA}},
		{"an empty array", " [ ] ", []string{" pass no records"}},
		{"arrays", "[" + a + "][" + b + "]", []string{readA, readB}},
		{"objects", a + b + "\n" + a, []string{readA, readB, readA}},
		{"other values", `[1,` + a + `,"x",null,[[]],` + b + `,{"url":1]`,
			[]string{bad, readA, bad, bad, bad, readB, bad, cut}},
		{"too many brackets", "]" + a + "}" + b, []string{bad, readA, bad, readB}},
		{"no end", "[" + a + ",", []string{readA, cut}},
		{"truncated", "[" + a + "," + b[:20], []string{readA, bad, cut}},
		{"truncated gzip", gzipped("[" + a + "," + b + "]")[:40],
			[]string{readA, " lost truncated gzip"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			records := readString(t, Options{Format: JSON}, test.input)
			if len(records) > 0 || len(test.want) > 0 {
				check(t, records, test.want...)
			}
			// in pieces of any size
			for size := 1; size < 4 && !strings.HasPrefix(test.input, string(gzipMagic)); size++ {
				r := newReader(t, Options{Format: JSON,
					Stdin: pieces{strings.NewReader(test.input), size}}, "-")
				if got, want := brief(readAll(t, r)), brief(records); got != want {
					t.Errorf("%d bytes at once: got\n%swant\n%s", size, got, want)
				}
			}
		})
	}
	long := `{"url":"u","text":"` + strings.Repeat("x", 70_000) + `"}`
	check(t, readString(t, Options{Format: JSON, MaxDocument: 1000}, "["+long+","+b+"]"),
		" lost too large", readB)
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

func TestDamagedLines(t *testing.T) {
	file := strings.Repeat(`{"url":"u","text":"t"}`+"\n", 3)
	whole := gzipped(file)
	check(t, readString(t, Options{Format: JSONL}, whole[:len(whole)-4]), "u text t", "u text t",
		"u text t", " lost truncated gzip")
	check(t, readString(t, Options{Format: JSONL}, whole+"rubbish"), "u text t", "u text t",
		"u text t", " lost bad gzip")
	check(t, readString(t, Options{Format: JSONL}, gzipped(file[:30])+whole[:5]), "u text t",
		" lost truncated gzip")
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
