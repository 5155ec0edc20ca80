package bench

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"
)

// Every section runs, verified, and leaves nothing behind.
func TestRunAll(t *testing.T) {
	dir := t.TempDir()
	got := make(map[string]int)
	count := func(f Figure) {
		got[f.Section]++
		if f.Value < 0 {
			t.Errorf("%v is negative", f)
		}
	}
	err := Run(t.Context(), Options{Documents: 3000, MaxDistance: 3, Dir: dir, Time: time.Millisecond, CacheBytes: 64 << 20, Seed: 7, Emit: count, Logf: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range Sections {
		if got[s.Name] == 0 {
			t.Errorf("section %s gave no figure", s.Name)
		}
	}
	empty(t, dir)
}

// A run that is cut short ends with the context's error and leaves nothing behind,
// wherever that is.
func TestRunCanceled(t *testing.T) {
	for _, last := range []string{"load", "query", "live", "check"} {
		dir := t.TempDir()
		ctx, cancel := context.WithCancel(t.Context())
		err := Run(ctx, Options{
			Documents: 500, MaxDistance: 3, Bare: true, Dir: dir, Time: time.Millisecond, CacheBytes: 32 << 20, Logf: t.Logf,
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
