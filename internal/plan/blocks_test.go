package plan

import (
	"math"
	"testing"
)

// TestSplitBlocks tries all lengths of up to three blocks.
func TestSplitBlocks(t *testing.T) {
	for _, n := range []int64{100, 1_000_000, 10_000_000_000} {
		for _, radii := range [][]int{{0}, {2}, {0, 0}, {0, 1}, {1, 1}, {1, 2},
			{0, 0, 1}, {1, 2, 2}} {
			best := math.Inf(1)
			var walk func(i, left int, sum float64)
			walk = func(i, left int, sum float64) {
				if i == len(radii) {
					best = min(best, sum)
					return
				}
				for prefix := 1; prefix <= left; prefix++ {
					if prefix >= radii[i] {
						t := Table{Prefix: prefix, Radius: radii[i]}
						walk(i+1, left-prefix, sum+t.warm(t.estimate(n)))
					}
				}
			}
			walk(0, 64, 0)
			got := splitBlocks(radii, n)
			if cost := splitCost(radii, got, n); math.Abs(cost/best-1) > 1e-9 {
				t.Errorf("n = %d, radii %v: %v takes %g ns, the best %g", n, radii, got, cost, best)
			}
		}
	}
}

func splitCost(radii, lengths []int, n int64) (sum float64) {
	for i, prefix := range lengths {
		t := Table{Prefix: prefix, Radius: radii[i]}
		sum += t.warm(t.estimate(n))
	}
	return sum
}
