package plan

import (
	"strings"
	"testing"
)

func TestReplanAdvice(t *testing.T) {
	two, four := mustPlan(t, "2", 3), mustPlan(t, "4", 3)
	for _, c := range []struct {
		plan *Plan
		n    int64
		want bool
	}{
		{four, 0, false}, {four, 1e6, false}, {four, 1e8, true}, {four, 1e9, true},
		{two, 0, false}, {two, 1e4, false}, {two, 1e8, false}, {two, 1e10, false},
		{mustPlan(t, "20", 3), 1e9, false},
		{mustPlan(t, "blocks-1", 3), 10, false},                // slow from the first document on
		{mustPlan(t, "blocks-7", 6), 1e8, true},                // Manku's blocks of 9 bits
		{mustParse(t, "k=3 0-63/1~1 1-63,0-0/1~1"), 10, false}, // good for nothing, but not yet slow
	} {
		o, outgrown := c.plan.ReplanAdvice(c.n, Limits{}, Costs{})
		if outgrown != c.want {
			t.Errorf("%v at %d documents: %v, %+v", c.plan, c.n, outgrown, o)
		}
	}
	o, outgrown := four.ReplanAdvice(1e8, Limits{}, Costs{})
	if !outgrown || o.Better.Plan.String() != two.String() || o.Documents != 1e8 || o.Factor < 2 {
		t.Errorf("%+v", o)
	}
	if now, better := four.Estimate(1e8, Costs{}, 0).Query, two.Estimate(1e8, Costs{}, 0).Query; o.Factor != now/better {
		t.Errorf("factor %g, not %g", o.Factor, now/better)
	}
	if s := o.String(); !strings.Contains(s, "among 100000000 documents, design blocks-2 with 2 tables would answer 5.0 times faster") {
		t.Error(s)
	}
	// Fewer tables than two may not be had, so nothing is better.
	if o, outgrown := four.ReplanAdvice(1e8, Limits{DiskBytes: 1}, Costs{}); outgrown {
		t.Errorf("with no disk: %v", o)
	}
}

// TestNoChoiceIsOutgrownBeforeItsTime: a plan is chosen for some number of documents
// and the index starts empty.
func TestNoChoiceIsOutgrownBeforeItsTime(t *testing.T) {
	for k := range MaxDistance + 1 {
		for expected := int64(1000); expected <= 10_000_000_000; expected *= 100 {
			p := mustChoose(t, k, expected, Limits{}, Costs{}).Plan
			for n := expected; n > 0; n /= 10 {
				if o, outgrown := p.ReplanAdvice(n, Limits{}, Costs{}); outgrown {
					t.Errorf("k = %d, chosen for %d: %v", k, expected, o)
				}
			}
		}
	}
}
