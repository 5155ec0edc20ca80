package plan

import (
	"errors"
	"fmt"
	"testing"
)

// TestChooseIsTheBest holds every design against the choice: none within the
// limits has a lower product of time and tables.
func TestChooseIsTheBest(t *testing.T) {
	refused := 0
	for _, k := range []int{0, 1, 3, 6, 11} {
		for _, n := range []int64{0, 1e4, 1e7, 1e10} {
			for _, limits := range []Limits{{}, {Tables: 1}, {Tables: 3}, {Tables: 1000}, {DiskBytes: 1e9}, {RAMBytes: 1e9}, {Tables: 8, DiskBytes: 1e11, RAMBytes: 1e10}} {
				c, err := Choose(k, n, limits)
				if err != nil && !errors.Is(err, ErrUnusable) {
					t.Fatal(err)
				}
				if err != nil {
					refused++
				}
				for _, d := range Designs(k) {
					e := tablesFor(t, d, k).Estimate(n, limits.RAMBytes)
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
	if refused == 0 {
		t.Error("a gigabyte is never too little")
	}
}

// TestNoChoiceIsOutgrownBeforeItsTime: a plan is chosen for some number of documents
// and the index starts empty.
func TestNoChoiceIsOutgrownBeforeItsTime(t *testing.T) {
	for k := range MaxDistance + 1 {
		for expected := int64(1000); expected <= 10_000_000_000; expected *= 100 {
			c, err := Choose(k, expected, Limits{})
			must(t, err)
			for n := expected; n > 0; n /= 10 {
				if a := c.Plan.Outgrown(n); a != "" {
					t.Errorf("k = %d, chosen for %d: %s", k, expected, a)
				}
			}
		}
	}
}

// BenchmarkChoose is the work of choosing, which Outgrown does as well.
func BenchmarkChoose(b *testing.B) {
	for _, k := range []int{3, 10, 16} {
		b.Run(fmt.Sprintf("k=%d", k), func(b *testing.B) {
			for b.Loop() {
				if _, err := Choose(k, 1e7, Limits{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
