package plan

import (
	"math"
	"testing"

	"github.com/neardup/neardup/internal/filter"
)

func TestFilterLookups(t *testing.T) {
	for _, c := range []Table{{Prefix: 3, Radius: 2}, {Prefix: 6, Radius: 1},
		{Prefix: 7, Radius: 3}, {Prefix: 16}, {Prefix: 20, Radius: 2}, {Prefix: 32, Radius: 1}} {
		words := map[uint64]bool{}
		for _, flips := range filter.AppendAll(nil, c.Prefix, c.Radius) {
			words[flips>>(64-c.Prefix)>>filter.GroupBits] = true
		}
		if got := c.filterWords(); got != len(words) {
			t.Errorf("prefix %d, radius %d: %d lookups, want %d", c.Prefix, c.Radius,
				got, len(words))
		}
	}
}

// TestEstimateIsFinite tests estimates for all designs and extreme numbers of documents.
func TestEstimateIsFinite(t *testing.T) {
	for k := range MaxDistance + 1 {
		for _, d := range Designs(k) {
			p := tablesFor(t, d, k)
			for _, n := range []int64{-1, 0, 1, 2, 1e6, 1e15} {
				e := p.Estimate(n)
				for _, figure := range []float64{e.Passing, e.Candidates, e.TableBytes,
					e.FilterBytes, e.DirectoryBytes, e.Warm, e.Disk} {
					if !(figure >= 0) || math.IsInf(figure, 0) {
						t.Fatalf("k = %d, design %s, n = %d: %+v", k, d, n, e)
					}
				}
				if e.Warm > e.Disk || e.Passing > float64(e.Probes)*(1+1e-9) {
					t.Errorf("k = %d, design %s, n = %d: %+v", k, d, n, e)
				}
			}
		}
	}
}
