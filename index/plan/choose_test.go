package plan

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func mustChoose(t *testing.T, k int, n int64, limits Limits, costs Costs) Choice {
	t.Helper()
	c, err := Choose(k, n, limits, costs)
	if err != nil {
		t.Fatalf("k = %d, n = %d: %v", k, n, err)
	}
	return c
}

// TestChoose is what the default costs choose.
func TestChoose(t *testing.T) {
	for _, c := range []struct {
		k      int
		n      int64
		design string
		most   float64 // ns a query that is expected
	}{
		{0, 1e4, "blocks-1", 1e3},
		{0, 1e10, "blocks-1", 1e3},
		{1, 1e7, "blocks-2", 1e3},
		{3, 1e4, "blocks-4", 1e3},
		{3, 1e6, "blocks-2", 3e3},
		{3, 1e7, "blocks-2", 3e3},
		{3, 1e8, "blocks-2", 6e3},
		{3, 1e9, "blocks-2", 10e3},
		{3, 1e10, "blocks-2", 30e3},
		{6, 1e7, "blocks-4", 60e3},
		{6, 1e9, "blocks-2", 500e3},
		{10, 1e7, "blocks-4", 500e3},
		{16, 1e6, "blocks-6", 1e6},
	} {
		got := mustChoose(t, c.k, c.n, Limits{}, Costs{})
		if got.Design != c.design || got.Estimate.Query > c.most {
			t.Errorf("k = %d, n = %d: design %s, %g ns: %s", c.k, c.n, got.Design, got.Estimate.Query, got.Reason)
		}
	}
	if got, want := mustChoose(t, 3, 1e7, Limits{}, Costs{}).Plan.String(), "k=3 0-63/32~1 32-63,0-31/32~1"; got != want {
		t.Errorf("%s, not %s", got, want)
	}
}

// TestChooseIsTheBest holds every design against the choice: none within the
// limits has a lower product of time and tables.
func TestChooseIsTheBest(t *testing.T) {
	slowDisk := DefaultCosts()
	slowDisk.DiskRead *= 50
	refused := 0
	for _, k := range []int{0, 1, 3, 6, 11} {
		for _, n := range []int64{0, 1e4, 1e7, 1e10} {
			for _, limits := range []Limits{{}, {Tables: 1}, {Tables: 3}, {Tables: 1000}, {DiskBytes: 1e9}, {RAMBytes: 1e9}, {Tables: 8, DiskBytes: 1e11, RAMBytes: 1e10}} {
				for _, costs := range []Costs{{}, slowDisk} {
					c, err := Choose(k, n, limits, costs)
					if err != nil && !errors.Is(err, ErrUnusable) {
						t.Fatal(err)
					}
					if err != nil {
						refused++
					}
					for _, d := range Designs(k) {
						e := tablesFor(t, d, k).Estimate(n, costs, limits.RAMBytes)
						most := limits.Tables
						if most == 0 {
							most = 32
						}
						if len(e.Tables) > most || limits.DiskBytes > 0 && e.DiskBytes() > float64(limits.DiskBytes) {
							if err == nil && c.Design == d {
								t.Errorf("k = %d, n = %d, %+v: design %s is beyond", k, n, limits, d)
							}
							continue
						}
						if err != nil {
							t.Errorf("k = %d, n = %d, %+v: design %s would do: %v", k, n, limits, d, err)
						} else if e.Query*float64(len(e.Tables)) < c.Estimate.Query*float64(len(c.Estimate.Tables)) {
							t.Errorf("k = %d, n = %d, %+v: design %s is better than %s", k, n, limits, d, c.Design)
						}
					}
				}
			}
		}
	}
	if refused == 0 {
		t.Error("a gigabyte is never too little")
	}
}

func TestChooseReason(t *testing.T) {
	for _, c := range []struct {
		limits Limits
		costs  Costs
		design string
		says   []string
	}{
		{Limits{}, Costs{}, "blocks-2", []string{"blocks-2 (1.9µs a query, 2 tables) has the least product", "Next best is blocks-4 (", "Fastest is 20 ("}},
		{Limits{Tables: 1}, Costs{}, "blocks-1", []string{"Better, but beyond a limit, is blocks-2 (1.9µs a query, 2 tables): it has 2 tables, over the limit of 1."}},
		{Limits{DiskBytes: 150e6}, Costs{}, "blocks-1", []string{"GB on disk, over the limit of 0.15 GB."}},
		// Where a look-up takes as long as a probe, Manku's tables are better than radii.
		{Limits{}, Costs{Query: 500, FilterLookup: 300, PackedProbe: 300, PackedCandidate: 1.6}, "blocks-4", []string{"blocks-4 ("}},
	} {
		got := mustChoose(t, 3, 1e7, c.limits, c.costs)
		if got.Design != c.design {
			t.Errorf("%+v: design %s", c, got.Design)
		}
		for _, part := range c.says {
			if !strings.Contains(got.Reason, part) {
				t.Errorf("%+v: the reason does not say %q: %s", c.limits, part, got.Reason)
			}
		}
	}
}

func TestChooseIsRefused(t *testing.T) {
	for _, c := range []struct {
		k      int
		limits Limits
		says   string
	}{
		{-1, Limits{}, "k = -1"},
		{MaxDistance + 1, Limits{}, "k = 17"},
		{3, Limits{Tables: -1}, "negative"},
		{3, Limits{DiskBytes: 1e9}, "the nearest, design blocks-1, has"},
		{3, Limits{DiskBytes: 1e9}, "GB on disk, over the limit of 1 GB"},
	} {
		if _, err := Choose(c.k, 1e9, c.limits, Costs{}); !errors.Is(err, ErrUnusable) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("k = %d, %+v: %v", c.k, c.limits, err)
		}
	}
}

// BenchmarkChoose is the work of choosing, which Outgrown does as well.
func BenchmarkChoose(b *testing.B) {
	for _, k := range []int{3, 10, 16} {
		b.Run(fmt.Sprintf("k=%d", k), func(b *testing.B) {
			for b.Loop() {
				if _, err := Choose(k, 1e7, Limits{}, Costs{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
