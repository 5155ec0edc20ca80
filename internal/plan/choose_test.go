package plan

import "testing"

// TestChooseIsOptimal compares the chosen design with all other designs. No design of at most 32
// tables may have a lower product of time and tables.
func TestChooseIsOptimal(t *testing.T) {
	for k := range MaxDistance + 1 {
		for _, n := range []int64{0, 1e4, 1e7, 1e10} {
			c, err := Choose(k, n)
			must(t, err)
			if len(c.Plan.Tables) > 32 || c.Plan.String() != mustPlan(t, c.Design, k).String() {
				t.Errorf("k = %d, n = %d: design %s, plan %v", k, n, c.Design, c.Plan)
			}
			for _, d := range Designs(k) {
				e := tablesFor(t, d, k).Estimate(n)
				if len(e.Tables) <= 32 &&
					e.Warm*float64(len(e.Tables)) < c.Estimate.Warm*float64(
						len(c.Estimate.Tables)) {
					t.Errorf("k = %d, n = %d: design %s is better than %s", k, n, d, c.Design)
				}
			}
		}
	}
	if c, err := Choose(MaxDistance+1, 1); err == nil {
		t.Errorf("k = %d is accepted: %+v", MaxDistance+1, c)
	}
}
