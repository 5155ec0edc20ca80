package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/neardup/neardup"
	"github.com/neardup/neardup/client/api"
)

// jsonSchema has the fields of a schema that GET /openapi.json uses.
type jsonSchema struct {
	Ref        string `json:"$ref"`
	Type       any
	Properties map[string]*jsonSchema
	Required   []string
	Items      *jsonSchema
	AnyOf      []*jsonSchema
}

type operation struct {
	OperationID string
	Parameters  []struct{ Name string }
	Responses   map[string]struct {
		Content map[string]struct{ Schema *jsonSchema }
	}
}

type openAPIDocument struct {
	Paths      map[string]map[string]operation
	Components struct{ Schemas map[string]*jsonSchema }
}

// check returns an error if a value does not follow a schema.
func (o *openAPIDocument) check(s *jsonSchema, value any) error {
	if name, is := strings.CutPrefix(s.Ref, "#/components/schemas/"); is {
		referred := o.Components.Schemas[name]
		if referred == nil {
			return fmt.Errorf("no schema %s", name)
		}
		if err := o.check(referred, value); err != nil {
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
		for _, name := range s.Required {
			if _, has := v[name]; !has {
				return fmt.Errorf("%s is missing in %v", name, v)
			}
		}
		for name, field := range v {
			if s.Properties[name] == nil {
				return fmt.Errorf("%s is not described", name)
			}
			if err := o.check(s.Properties[name], field); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		is = s.Type == "object"
	case []any:
		for _, item := range v {
			if s.Items == nil {
				return fmt.Errorf("%v is not %v", v, s.Type)
			}
			if err := o.check(s.Items, item); err != nil {
				return err
			}
		}
		is = s.Type == "array"
	case string:
		is = s.Type == "string"
	case json.Number:
		_, err := v.Int64()
		is = s.Type == "number" || s.Type == "integer" && err == nil
	case bool:
		is = s.Type == "boolean"
	}
	if !is {
		return fmt.Errorf("%v is not %v", value, s.Type)
	}
	return nil
}

// checkAnswer returns an error if an answer does not follow the document.
func (o *openAPIDocument) checkAnswer(method, path string, r *http.Response) error {
	responses := o.Paths[path][strings.ToLower(method)].Responses
	described, has := responses[fmt.Sprint(r.StatusCode)]
	if !has {
		described = responses[fmt.Sprint(r.StatusCode/100)+"XX"]
	}
	content, is := described.Content[r.Header.Get("Content-Type")]
	if !is {
		return fmt.Errorf("%s is none of %v", r.Header.Get("Content-Type"),
			slices.Collect(maps.Keys(described.Content)))
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

// TestOpenAPI: GET /openapi.json describes every call. The answers, including errors, have the
// described types and fields.
func TestOpenAPI(t *testing.T) {
	_, address := serve(t, open(t, nil), Options{Checkpoints: t.TempDir(),
		Limits: Limits{PageBytes: 1 << 10}})
	r, err := http.Get(address + "/openapi.json")
	_, text := answerOf(t, r, err)
	var doc openAPIDocument
	must(t, json.Unmarshal([]byte(text), &doc))
	const words = "some words that are in each of these pages and nothing else"
	line := func(key string) string {
		return `{"key":"` + key + `","text":"` + words +
			`","scope":"s"}` + "\n"
	}
	answered := make(map[string]bool)
	for _, c := range []struct {
		method, path, query, contentType, body string
		want                                   int
	}{
		{"POST", "/v1/check", "", api.JSONLines, line("a") + line("a") + line("b") +
			`{"key":"a","text":"words","scope":"s"}` + "\n{\n" +
			`{"keyBytes":"/w==","fingerprint":"1"}`, 200},
		{"POST", "/v1/check", "", api.JSONLines, "{\n", 400},
		{"POST", "/v1/check", "?key=b&scope=s", "text/plain", "a text that no other page has", 200},
		{"POST", "/v1/check", "?key=c&scope=s", "text/plain", words, 200},
		{"POST", "/v1/check", "?key=c", "text/plain", "...", 200},
		{"POST", "/v1/check", "?key=c", "text/html", strings.Repeat("words ", 1000), 200},
		{"POST", "/v1/check", "", "application/json",
			"[" + line("d") + ",{}," + line("d") + "]", 200},
		{"POST", "/v1/check", "", "application/json", line("d"), 200},
		{"POST", "/v1/check", "", "text/xml", "<p>", 415},
		{"POST", "/v1/check", "?kind=text", "text/plain", "", 400},
		{"POST", "/v1/query", "", api.JSONLines, line("b") + "{\n", 200},
		{"POST", "/v1/query", "", "application/json", `{"text":"a","limit":1}`, 200},
		{"POST", "/v1/query", "?key=&scope=s", "text/plain", words, 200},
		{"POST", "/v1/query", "", api.JSONLines, `{"text":"a","maxDistance":17}`, 400},
		{"POST", "/v1/explain", "?key=new&scope=s", "text/plain", words, 200},
		{"POST", "/v1/explain", "", "application/json", line("a"), 200},
		{"POST", "/v1/explain", "", api.JSONLines, line("a") + `{"text":"..."}`, 200},
		{"GET", "/v1/explain", "?key=b", "", "", 200},
		{"GET", "/v1/explain", "?key=%ff", "", "", 200},
		{"GET", "/v1/explain", "?key=none", "", "", 404},
		{"GET", "/v1/document", "?key=%ff", "", "", 200},
		{"GET", "/v1/document", "?key=b", "", "", 200},
		{"GET", "/v1/document", "?key=none", "", "", 404},
		{"GET", "/v1/document", "", "", "", 400},
		{"GET", "/v1/documents", "", "", "", 200},
		{"GET", "/v1/documents", "?after=1", "", "", 200},
		{"GET", "/v1/documents", "?after=x", "", "", 400},
		{"GET", "/v1/checkpoint", "", "", "", 200},
		{"GET", "/v1/checkpoint", "?name=a", "", "", 400},
		{"POST", "/v1/checkpoint", "?name=a", "", "", 202},
		{"POST", "/v1/checkpoint", "?name=.", "", "", 400},
		{"POST", "/v1/compact", "", "", "", 202},
		{"POST", "/v1/compact", "?k=3", "", "", 400},
		{"GET", "/v1/compact", "", "", "", 200},
		{"GET", "/v1/stats", "", "", "", 200},
		{"POST", "/v1/documents/delete", "", "application/json", `{"keys":["b"],"ids":[7]}`, 200},
		{"POST", "/v1/documents/delete", "", "application/json", `{"id":7}`, 400},
	} {
		r, _ := http.NewRequest(c.method, address+c.path+c.query, bytes.NewReader([]byte(c.body)))
		r.Header.Set("Content-Type", c.contentType)
		answer, err := http.DefaultClient.Do(r)
		must(t, err)
		if err := doc.checkAnswer(c.method, c.path, answer); err != nil ||
			answer.StatusCode != c.want {
			t.Errorf("%s %s%s: %s, want %d; %v", c.method, c.path, c.query,
				answer.Status, c.want, err)
		}
		answer.Body.Close()
		answered[fmt.Sprint(c.method, " ", c.path, " ", c.want < 400)] = true
	}
	for _, c := range calls {
		operation := doc.Paths[c.path][strings.ToLower(c.method)]
		if operation.OperationID != c.name || len(operation.Parameters) != len(c.parameters) {
			t.Errorf("%s %s is %+v", c.method, c.path, operation)
		}
		if !answered[fmt.Sprint(c.method, " ", c.path, " true")] {
			t.Errorf("%s %s was not tried", c.method, c.path)
		}
	}
}

// figuresOf returns the names of the metrics of a server.
func figuresOf(t *testing.T) map[string]bool {
	t.Helper()
	s, address := serve(t, open(t, nil), Options{})
	s.metrics.refused.WithLabelValues("memory")
	dial(t, address, nil).Check(t.Context(), neardup.Page{Body: []byte("a word")})
	families, err := s.metrics.registry.Gather()
	must(t, err)
	has := make(map[string]bool)
	for _, f := range families {
		has[f.GetName()] = true
	}
	return has
}

// TestListOfMetrics: docs/operations.md lists all metrics of neardup.
func TestListOfMetrics(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/operations.md")
	must(t, err)
	listed := make(map[string]bool)
	for _, row := range regexp.MustCompile(
		"(?m)^\\| `(neardup_[a-z0-9_]+)`").FindAllStringSubmatch(string(text), -1) {
		listed[row[1]] = true
	}
	has := figuresOf(t)
	maps.DeleteFunc(has, func(name string, _ bool) bool {
		return !strings.HasPrefix(name, "neardup_")
	})
	if !maps.Equal(has, listed) {
		t.Errorf("it lists\n%q\nand there are\n%q", slices.Sorted(maps.Keys(listed)),
			slices.Sorted(maps.Keys(has)))
	}
}

// TestDashboard: the dashboard uses only existing metrics.
func TestDashboard(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/serve/grafana.json")
	must(t, err)
	var dashboard struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	must(t, json.Unmarshal(text, &dashboard))
	has := figuresOf(t)
	checked := 0
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			for _, word := range strings.FieldsFunc(target.Expr,
				func(r rune) bool {
					return r != '_' && (r < 'a' || r > 'z') &&
						(r < '0' || r > '9')
				}) {
				if strings.HasPrefix(word, "neardup_") || strings.HasPrefix(word, "process_") {
					if checked++; !has[strings.TrimSuffix(word, "_bucket")] {
						t.Errorf("no metric %s", word)
					}
				}
			}
		}
	}
	if checked < 25 {
		t.Errorf("%d figures", checked)
	}
}
