package plan

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestBlocks has the tables of the k that matter most, worked out by hand but for
// the lengths with several radii, and what holds for every k.
func TestBlocks(t *testing.T) {
	for plan, want := range map[string]struct{ k, m int }{
		"k=0 0-63/64":                                                       {0, 1},
		"k=1 0-63/32 32-63,0-31/32":                                         {1, 2},
		"k=3 0-63/32~1 32-63,0-31/32~1":                                     {3, 2},
		"k=3 0-63/20 20-39,0-19,40-63/20 40-63,0-39/24~1":                   {3, 3},
		"k=3 0-63/16 16-31,0-15,32-63/16 32-47,0-31,48-63/16 48-63,0-47/16": {3, 4},
	} {
		if got := mustPlan(t, blocksName(want.m), want.k).String(); got != plan {
			t.Errorf("blocks-%d at k = %d is %s, not %s", want.m, want.k, got, plan)
		}
	}
	for k := range MaxDistance + 1 {
		for m := 1; m <= k+1; m++ {
			p := mustPlan(t, blocksName(m), k) // checked for coverage
			sum, bits := 0, 0
			for _, table := range p.Tables {
				sum += table.Radius + 1
				bits += table.Prefix
			}
			if len(p.Tables) != m || sum != k+1 || bits > 64 || p.Tables[m-1].Radius-p.Tables[0].Radius > 1 {
				t.Errorf("blocks-%d at k = %d is %v", m, k, p)
			}
		}
	}
}

// TestDesignsStayAsTheyAre: the name of a design stands for a plan, on every
// processor and in every version. An index is refused when it was made with another.
func TestDesignsStayAsTheyAre(t *testing.T) {
	want, err := os.ReadFile("testdata/designs.txt")
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for k := range MaxDistance + 1 {
		for m := 1; m <= k+1; m++ {
			fmt.Fprintf(&got, "k=%d blocks-%d", k, m)
			for _, table := range blockTables(k, m) {
				fmt.Fprintf(&got, " %d~%d", table.Prefix, table.Radius)
			}
			fmt.Fprintln(&got)
		}
	}
	was, is := strings.Split(string(want), "\n"), strings.Split(got.String(), "\n")
	if len(was) != len(is) {
		t.Errorf("%d designs, not %d", len(is), len(was))
	}
	for i := range min(len(was), len(is)) {
		if is[i] != was[i] {
			t.Errorf("%s, it was %s", is[i], was[i])
		}
	}
}

// TestSplitBlocks tries all lengths of up to three blocks.
func TestSplitBlocks(t *testing.T) {
	costs := DefaultCosts()
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
						walk(i+1, left-prefix, sum+Table{Prefix: prefix, Radius: radii[i]}.estimate(n, unlimited).warm(costs))
					}
				}
			}
			walk(0, 64, 0)
			got := splitBlocks(radii, n, costs)
			if cost := splitCost(radii, got, n, costs); math.Abs(cost/best-1) > 1e-9 {
				t.Errorf("n = %d, radii %v: %v takes %g ns, the best %g", n, radii, got, cost, best)
			}
		}
	}
}

func splitCost(radii, lengths []int, n int64, costs Costs) (sum float64) {
	for i, prefix := range lengths {
		sum += Table{Prefix: prefix, Radius: radii[i]}.estimate(n, unlimited).warm(costs)
	}
	return sum
}

// TestSplitsAreNearTheBest: with blocks cut for a billion fingerprints, the choice
// of m loses little against blocks cut for the number there is.
func TestSplitsAreNearTheBest(t *testing.T) {
	costs := DefaultCosts()
	worst := 0.0
	for k := range MaxDistance + 1 {
		for n := int64(10_000); n <= 10_000_000_000; n *= 10 {
			fixed, fitted := math.Inf(1), math.Inf(1)
			for m := 1; m <= k+1; m++ {
				radii := blockRadii(k, m)
				score := func(lengths []int) float64 {
					return float64(m) * (costs.Query + splitCost(radii, lengths, n, costs))
				}
				var lengths []int
				for _, table := range blockTables(k, m) {
					lengths = append(lengths, table.Prefix)
				}
				fixed = min(fixed, score(lengths))
				fitted = min(fitted, score(splitBlocks(radii, n, costs)))
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

// TestBlockRadii: as even as possible, ascending, and one less than k+1 together.
func TestBlockRadii(t *testing.T) {
	for _, c := range []struct {
		k, m int
		want []int
	}{
		{3, 2, []int{1, 1}}, {3, 3, []int{0, 0, 1}}, {6, 4, []int{0, 1, 1, 1}}, {6, 3, []int{1, 1, 2}},
		{7, 4, []int{1, 1, 1, 1}}, {10, 4, []int{1, 2, 2, 2}}, {16, 1, []int{16}},
	} {
		if got := blockRadii(c.k, c.m); !slices.Equal(got, c.want) {
			t.Errorf("k = %d, %d blocks: %v, not %v", c.k, c.m, got, c.want)
		}
	}
}
