package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/neardup/neardup"
	"github.com/neardup/neardup/client/api"
	"github.com/neardup/neardup/internal/wire"
)

// checkAnswer returns an error if the answer to a call has objects of another type than
// openapi.json describes, which is generated from the types of calls.
func checkAnswer(c *call, status int, media, text string) error {
	objects := []json.RawMessage{json.RawMessage(text)}
	succeeded := status == c.status
	switch {
	case succeeded && c.hasDocuments() && media == api.JSONLines:
		objects = nil
		for line := range strings.Lines(text) {
			objects = append(objects, json.RawMessage(line))
		}
	case media != "application/json":
		return fmt.Errorf("the Content-Type is %s", media)
	case succeeded && c.hasDocuments() && text[0] == '[':
		if err := json.Unmarshal([]byte(text), &objects); err != nil {
			return err
		}
	}
	for _, object := range objects {
		to := reflect.New(reflect.TypeOf(c.answer)).Interface()
		if !succeeded || c.hasDocuments() && bytes.HasPrefix(object, []byte(`{"error":`)) {
			to = new(api.Failure)
		}
		if err := json.Unmarshal(object, to); err != nil {
			return err
		}
		again, err := wire.Encode(to)
		if err != nil || !bytes.Equal(bytes.TrimSpace(object), bytes.TrimSpace(again)) {
			return fmt.Errorf("%s is read as %s, %v", object, again, err)
		}
	}
	return nil
}

// TestOpenAPI: GET /openapi.json describes every call. The answers, including errors, have the
// described types.
func TestOpenAPI(t *testing.T) {
	_, address := serve(t, open(t, nil), Options{Checkpoints: t.TempDir(),
		Limits: Limits{PageBytes: 1 << 10}})
	_, text := get(t, address+"/openapi.json")
	var doc struct {
		Paths map[string]map[string]struct {
			OperationID string
			Parameters  []struct{ Name string }
		}
	}
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
		status, said, header := ask(t, c.method, address+c.path+c.query, c.body, "Content-Type",
			c.contentType)
		at := slices.IndexFunc(calls, func(known call) bool {
			return known.method == c.method && known.path == c.path
		})
		if err := checkAnswer(&calls[at], status, header.Get("Content-Type"),
			said); err != nil || status != c.want {
			t.Errorf("%s %s%s: %d, want %d; %v", c.method, c.path, c.query, status, c.want, err)
		}
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
