package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"
)

// Every section runs, verified, and leaves nothing behind.
func TestRunAll(t *testing.T) {
	dir := t.TempDir()
	report, err := Run(t.Context(), Options{Documents: 3000, MaxDistance: 3, Shingles: true, Dir: dir, Time: time.Millisecond, CacheBytes: 64 << 20, Seed: 7})
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]int)
	for _, f := range report.Figures {
		got[f.Section]++
		if f.Value < 0 {
			t.Errorf("%v is negative", f)
		}
	}
	names, _ := Sections()
	for _, name := range names {
		if got[name] == 0 {
			t.Errorf("section %s gave no figure", name)
		}
	}
	empty(t, dir)

	var out bytes.Buffer
	if err := report.WriteJSON(&out); err != nil {
		t.Fatal(err)
	}
	var back Report
	if err := json.Unmarshal(out.Bytes(), &back); err != nil {
		t.Fatal(err)
	}
	if len(back.Figures) != len(report.Figures) || back.Options.Documents != 3000 || strings.Count(out.String(), "\n") != 1 {
		t.Errorf("not the report as one object:\n%s", &out)
	}
}

// A run that is cut short ends with the context's error and leaves nothing behind,
// wherever that is.
func TestRunCanceled(t *testing.T) {
	for _, last := range []string{"load", "query", "live", "check"} {
		dir := t.TempDir()
		ctx, cancel := context.WithCancel(t.Context())
		_, err := Run(ctx, Options{
			Documents: 500, MaxDistance: 3, Dir: dir, Time: time.Millisecond, CacheBytes: 32 << 20,

			Emit: func(f Figure) {
				if f.Section == last {
					cancel()
				}
			},
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("during %s: %v", last, err)
		}
		empty(t, dir)
		cancel()
	}
}

func empty(t *testing.T, dir string) {
	t.Helper()
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("left behind: %v (%v)", entries, err)
	}
}

func TestCheckOptions(t *testing.T) {
	for want, o := range map[string]Options{
		"0 documents":     {},
		"k is 17":         {Documents: 1, MaxDistance: 17},
		"k is -1":         {Documents: 1, MaxDistance: -1},
		`no section "no"`: {Documents: 1, Only: []string{"load", "no"}},
	} {
		if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", o, err, want)
		}
	}
}
