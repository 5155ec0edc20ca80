package server

import (
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// TestMetrics: docs/operations.md lists all metrics of neardup, and the dashboard uses only
// existing metrics.
func TestMetrics(t *testing.T) {
	s := New(open(t, nil), Options{})
	defer s.Shutdown(t.Context())
	s.metrics.refused.WithLabelValues("memory")
	s.metrics.answers.WithLabelValues("check", "200")
	families, err := s.metrics.registry.Gather()
	must(t, err)
	all, own := make(map[string]bool), make(map[string]bool)
	for _, f := range families {
		all[f.GetName()] = true
		if strings.HasPrefix(f.GetName(), "neardup_") {
			own[f.GetName()] = true
		}
	}
	page, err := os.ReadFile("../../../../docs/operations.md")
	must(t, err)
	listed := make(map[string]bool)
	for _, row := range regexp.MustCompile(
		"(?m)^\\| `(neardup_[a-z0-9_]+)`").FindAllStringSubmatch(string(page), -1) {
		listed[row[1]] = true
	}
	if !reflect.DeepEqual(own, listed) {
		t.Errorf("docs/operations.md lists\n%v\nwant\n%v", listed, own)
	}

	text, err := os.ReadFile("../../../../docs/serve/grafana.json")
	must(t, err)
	var dashboard struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	must(t, json.Unmarshal(text, &dashboard))
	used := 0
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			for _, name := range regexp.MustCompile(
				`\b(neardup|process)_[a-z0-9_]+`).FindAllString(target.Expr, -1) {
				if used++; !all[strings.TrimSuffix(name, "_bucket")] {
					t.Errorf("no metric %s", name)
				}
			}
		}
	}
	if used < 25 {
		t.Errorf("%d metrics are used", used)
	}
}
