package plan

import (
	"math"
	"testing"
)

// TestSplitBlocks tries all lengths of up to three blocks.
func TestSplitBlocks(t *testing.T) {
	for _, n := range []int64{100, 1_000_000, 10_000_000_000} {
		for _, radii := range [][]int{{0}, {2}, {0, 0}, {0, 1}, {1, 1}, {1, 2}, {0, 0, 1}, {1, 2, 2}} {
			best := math.Inf(1)
			var walk func(i, left int, sum float64)
			walk = func(i, left int, sum float64) {
				if i == len(radii) {
					best = min(best, sum)
					return
				}
				for prefix := 1; prefix <= left; prefix++ {
					if prefix >= radii[i] {
						walk(i+1, left-prefix, sum+Table{Prefix: prefix, Radius: radii[i]}.estimate(n, unlimited).warm())
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
		sum += Table{Prefix: prefix, Radius: radii[i]}.estimate(n, unlimited).warm()
	}
	return sum
}

// TestSplitsAreNearTheBest: with blocks cut for a billion fingerprints, the choice
// of m loses little against blocks cut for the number there is.
func TestSplitsAreNearTheBest(t *testing.T) {
	worst := 0.0
	for k := range MaxDistance + 1 {
		for n := int64(10_000); n <= 10_000_000_000; n *= 10 {
			fixed, fitted := math.Inf(1), math.Inf(1)
			for m := 1; m <= k+1; m++ {
				radii := blockRadii(k, m)
				score := func(lengths []int) float64 {
					return float64(m) * (costQuery + splitCost(radii, lengths, n))
				}
				var lengths []int
				for _, table := range blockTables(k, m) {
					lengths = append(lengths, table.Prefix)
				}
				fixed = min(fixed, score(lengths))
				fitted = min(fitted, score(splitBlocks(radii, n)))
			}
			if fixed > 1.9*fitted {
				t.Errorf("k = %d, n = %d: %.2f times the best", k, n, fixed/fitted)
			}
			worst = max(worst, fixed/fitted)
		}
	}
	if worst < 1.5 {
		t.Errorf("at most %.2f times the best: the comment on Blocks says less than is true", worst)
	}
	t.Logf("at most %.2f times the best", worst)
}
