package server

import (
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
	"github.com/neardup/neardup/cmd/neardup/internal/compare"
	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/wire"
)

// docs/openapi.json has the calls that there are, and objects with the fields that are sent and read.
func TestOpenAPI(t *testing.T) {
	doc := readOpenAPI(t)
	var got, want []string
	for path, methods := range doc.Paths {
		for method, operation := range methods {
			got = append(got, strings.ToUpper(method)+" "+path+" "+operation.OperationID)
		}
	}
	for _, c := range (&Server{}).table() {
		want = append(want, c.method+" "+c.path+" "+c.name)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("it has\n%s\nand there are\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	objects := map[string]any{
		"Line": wire.Line{}, "Checked": wire.Checked{}, "Found": wire.Found{}, "Stored": wire.Stored{}, "Failure": wire.Failure{},
		"Deleted": Deleted{}, "Checkpointed": Checkpointed{}, "TaskState": TaskState{}, "Stats": index.Stats{}, "Compared": compare.Result{}, "Compacted": compaction.Report{},
	}
	if len(objects) != len(doc.Components.Schemas) {
		t.Errorf("it has %v", slices.Collect(maps.Keys(doc.Components.Schemas)))
	}
	for name, object := range objects {
		schema := doc.Components.Schemas[name]
		if schema == nil {
			t.Fatalf("it has no %s", name)
		}
		var fields, described []string
		for i := range reflect.TypeOf(object).NumField() {
			tag := reflect.TypeOf(object).Field(i).Tag.Get("json")
			field, options, _ := strings.Cut(tag, ",")
			if name == "Compared" && strings.HasPrefix(field, "differences") {
				continue // of texts, which an index does not have
			}
			fields = append(fields, fmt.Sprint(field, " ", !strings.HasPrefix(options, "omit")))
		}
		for field := range schema.Properties {
			described = append(described, fmt.Sprint(field, " ", slices.Contains(schema.Required, field)))
		}
		slices.Sort(fields)
		slices.Sort(described)
		if !slices.Equal(fields, described) {
			t.Errorf("%s has\n%s\nand is\n%s", name, strings.Join(described, "\n"), strings.Join(fields, "\n"))
		}
	}
}

// figuresOf returns the names of the figures that a server has.
func figuresOf(t *testing.T) map[string]bool {
	t.Helper()
	s, address := serve(t, open(t, nil), Options{})
	s.metrics.refused.WithLabelValues("calls")
	dial(t, address, nil).Check(t.Context(), neardup.Page{Body: []byte("a word")})
	families, err := s.metrics.registry.Gather()
	must(t, err)
	has := make(map[string]bool)
	for _, f := range families {
		has[f.GetName()] = true
	}
	return has
}

// The figures that docs/operations.md lists are those that /metrics has, but for Go's and the process's.
func TestListOfMetrics(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/operations.md")
	must(t, err)
	listed := make(map[string]bool)
	for _, row := range regexp.MustCompile("(?m)^\\| `(neardup_[a-z0-9_]+)`").FindAllStringSubmatch(string(text), -1) {
		listed[row[1]] = true
	}
	has := figuresOf(t)
	maps.DeleteFunc(has, func(name string, _ bool) bool { return !strings.HasPrefix(name, "neardup_") })
	if !maps.Equal(has, listed) {
		t.Errorf("it lists\n%q\nand there are\n%q", slices.Sorted(maps.Keys(listed)), slices.Sorted(maps.Keys(has)))
	}
}

// Every figure of the dashboard is one that /metrics has.
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
			for _, word := range strings.FieldsFunc(target.Expr, func(r rune) bool { return r != '_' && (r < 'a' || r > 'z') && (r < '0' || r > '9') }) {
				if strings.HasPrefix(word, "neardup_") || strings.HasPrefix(word, "process_") {
					if checked++; !has[strings.TrimSuffix(word, "_bucket")] {
						t.Errorf("there is no %s", word)
					}
				}
			}
		}
	}
	if checked < 25 {
		t.Errorf("%d figures", checked)
	}
}
