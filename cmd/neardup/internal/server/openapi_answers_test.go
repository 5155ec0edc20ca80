package server

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/neardup/neardup/internal/wire"
)

// schema is what docs/openapi.json says of a value.
type schema struct {
	Ref        string `json:"$ref"`
	Type       string
	Enum       []string
	Properties map[string]*schema
	Required   []string
	Items      *schema
	AnyOf      []*schema
}

// response is what it says of an answer.
type response struct {
	Headers map[string]any
	Content map[string]struct{ Schema *schema }
}

type openAPI struct {
	Paths map[string]map[string]struct {
		OperationID string
		Responses   map[string]response
	}
	Components struct{ Schemas map[string]*schema }
}

func readOpenAPI(t *testing.T) (doc openAPI) {
	t.Helper()
	text, err := os.ReadFile("../../../../docs/openapi.json")
	must(t, err, json.Unmarshal(text, &doc))
	return doc
}

// check returns what is wrong with a value.
func (o *openAPI) check(s *schema, value any) error {
	if name, is := strings.CutPrefix(s.Ref, "#/components/schemas/"); is {
		if err := o.check(o.Components.Schemas[name], value); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	}
	if s.AnyOf != nil {
		var err error
		for _, one := range s.AnyOf {
			if err = o.check(one, value); err == nil {
				return nil
			}
		}
		return err
	}
	is := false
	switch v := value.(type) {
	case map[string]any:
		if is = s.Type == "object"; s.Properties != nil {
			return o.checkObject(s, v)
		}
	case []any:
		is = s.Type == "array"
		for _, item := range v {
			if err := o.check(s.Items, item); err != nil {
				return err
			}
		}
	case string:
		is = s.Type == "string" && (s.Enum == nil || slices.Contains(s.Enum, v))
	case json.Number:
		_, err := v.Int64()
		is = s.Type == "number" || s.Type == "integer" && err == nil
	case bool:
		is = s.Type == "boolean"
	}
	if !is {
		return fmt.Errorf("%v is no %s %v", value, s.Type, s.Enum)
	}
	return nil
}

func (o *openAPI) checkObject(s *schema, object map[string]any) error {
	for _, name := range s.Required {
		if _, has := object[name]; !has {
			return fmt.Errorf("%s is missing in %v", name, object)
		}
	}
	for name, value := range object {
		if s.Properties[name] == nil {
			return fmt.Errorf("%s is not described", name)
		}
		if err := o.check(s.Properties[name], value); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// checkAnswer returns what is wrong with the answer to a call.
func (o *openAPI) checkAnswer(method, path string, r *http.Response) error {
	said := o.Paths[path][strings.ToLower(method)].Responses
	described, success := said[fmt.Sprint(r.StatusCode)]
	if !success {
		described = said["default"]
	}
	for name := range described.Headers {
		if r.Header.Get(name) == "" {
			return fmt.Errorf("it has no %s", name)
		}
	}
	content, is := described.Content[r.Header.Get("Content-Type")]
	if !is {
		return fmt.Errorf("%s is none of %v", r.Header.Get("Content-Type"), slices.Collect(maps.Keys(described.Content)))
	}
	values := json.NewDecoder(r.Body)
	values.UseNumber()
	for {
		var value any
		if err := values.Decode(&value); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if err := o.check(content.Schema, value); err != nil {
			return err
		}
	}
}

// What is answered has the status, the type, the headers and the fields that docs/openapi.json says, whether it succeeds or fails.
func TestOpenAPIAnswers(t *testing.T) {
	doc := readOpenAPI(t)
	_, address := serve(t, open(t, nil), Options{Checkpoints: t.TempDir(), Limits: Limits{PageBytes: 1 << 10}})
	const words = "some words that are in each of these pages and nothing else"
	line := func(key string) string { return `{"key":"` + key + `","text":"` + words + `","scope":"s"}` + "\n" }
	long := strings.Repeat("x", (&Limits{PageBytes: 1 << 10}).lineBytes())
	answered := make(map[string]bool)
	for _, c := range []struct {
		method, path, query, body string
		want                      int
	}{
		{"POST", "/v1/check", "", line("a") + line("a") + line("b") + `{"key":"a","text":"words","scope":"s"}` + "\n{\n" + `{"keyBytes":"/w==","fingerprint":"1"}`, 200},
		{"POST", "/v1/check", "", "{\n", 400},
		{"POST", "/v1/check", "?key=b&scope=s&kind=text", "a text that no other page has", 200},
		{"POST", "/v1/check", "?key=c&scope=s&kind=text", words, 200},
		{"POST", "/v1/check", "?key=c", "...", 200},
		{"POST", "/v1/check", "?key=c", strings.Repeat("words ", 1000), 200},
		{"POST", "/v1/check", "", `{"x":"` + long + `"}`, 200},
		{"POST", "/v1/check", "?kind=text", "", 400},
		{"POST", "/v1/query", "", line("b") + "{\n", 200},
		{"POST", "/v1/query", "", `{"text":"a","limit":1}` + "\n" + strings.Repeat(line("b"), 2*window) + `{"text":"a","maxDistance":17}`, 200},
		{"POST", "/v1/query", "?key=&kind=text&scope=s", words, 200},
		{"POST", "/v1/query", "", `{"text":"a","maxDistance":17}`, 400},
		{"GET", "/v1/documents", "?key=%ff", "", 200},
		{"GET", "/v1/documents", "?key=b", "", 200},
		{"GET", "/v1/documents", "?key=none", "", 404},
		{"GET", "/v1/documents", "", "", 400},
		{"GET", "/v1/pairs", "?of=b", "", 200},
		{"GET", "/v1/pairs", "?of=b&limit=0", "", 400},
		{"GET", "/v1/compare", "?a=a&b=b", "", 200},
		{"GET", "/v1/compare", "?a=%ff&b=b", "", 200},
		{"GET", "/v1/compare", "?a=a&b=none", "", 404},
		{"GET", "/v1/stats", "", "", 200},
		{"GET", "/v1/checkpoint", "", "", 200},
		{"GET", "/v1/checkpoint", "?name=a", "", 400},
		{"POST", "/v1/checkpoint", "?name=a", "", 202},
		{"POST", "/v1/checkpoint", "?name=.", "", 400},
		{"POST", "/v1/compact", "", "", 202},
		{"POST", "/v1/compact", "?k=3", "", 400},
		{"GET", "/v1/compact", "", "", 200},
		{"GET", "/v1/compact", "?k=3", "", 400},
		{"GET", "/v1/stats", "", "", 200},
		{"DELETE", "/v1/documents", "?key=a", "", 200},
		{"DELETE", "/v1/documents", "", "", 400},
	} {
		r, _ := http.NewRequest(c.method, address+c.path+c.query, strings.NewReader(c.body))
		if r.Header.Set("Content-Type", wire.JSONLines); strings.Contains(c.query, "key=") {
			r.Header.Set("Content-Type", "text/plain")
		}
		answer, err := http.DefaultClient.Do(r)
		must(t, err)
		if err := doc.checkAnswer(c.method, c.path, answer); err != nil || answer.StatusCode != c.want {
			t.Errorf("%s %s%s: %s, want %d; %v", c.method, c.path, c.query, answer.Status, c.want, err)
		}
		answer.Body.Close()
		answered[fmt.Sprint(c.method, " ", c.path, " ", c.want < 400)] = true
	}
	for _, c := range (&Server{}).table() {
		if !answered[fmt.Sprint(c.method, " ", c.path, " true")] {
			t.Errorf("%s %s was not tried", c.method, c.path)
		}
	}
}
