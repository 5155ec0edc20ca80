package plan

import (
	"math"
	"testing"
)

// TestSplitBlocks compares the chosen lengths with all lengths of up to three blocks.
func TestSplitBlocks(t *testing.T) {
	for _, n := range []int64{100, 1_000_000, 10_000_000_000} {
		for _, radii := range [][]int{{0}, {2}, {0, 0}, {0, 1}, {1, 1}, {1, 2},
			{0, 0, 1}, {1, 2, 2}} {
			cost := func(i, prefix int) float64 {
				t := Table{Prefix: prefix, Radius: radii[i]}
				return t.warm(t.estimate(n))
			}
			best := math.Inf(1)
			var walk func(i, left int, sum float64)
			walk = func(i, left int, sum float64) {
				if i == len(radii) {
					best = min(best, sum)
					return
				}
				for prefix := max(1, radii[i]); prefix <= left; prefix++ {
					walk(i+1, left-prefix, sum+cost(i, prefix))
				}
			}
			walk(0, 64, 0)
			sum := 0.0
			for i, prefix := range splitBlocks(radii, n) {
				sum += cost(i, prefix)
			}
			if math.Abs(sum/best-1) > 1e-9 {
				t.Errorf("n = %d, radii %v: %g ns, want %g", n, radii, sum, best)
			}
		}
	}
}
