package index

import "fmt"

// outgrownFactor is by how much another plan must be faster to be worth rewriting an
// index for.
const outgrownFactor = 2

// mostDocuments is how far ahead Outgrown looks.
const mostDocuments = 1 << 40

// Outgrowth tells that an index has more documents than its plan is good for.
type Outgrowth struct {
	Documents int64
	Now       Estimate // of the plan that it has
	Better    Choice   // what would be chosen for that many documents
	Factor    float64  // how many times faster it answers
}

// Outgrown reports whether an index of n documents with this plan would answer more
// than twice as fast with the plan that ChoosePlanWithin the same limits gives. A
// plan is not outgrown where it is as good as ever, or good for some number of
// documents that is still to come.
//
// It takes microseconds, but for a plan that is outgrown or nearly so as long as
// choosing twenty plans (BenchmarkChoosePlan).
func (p *Plan) Outgrown(n int64, limits Limits, costs Costs) (o Outgrowth, outgrown bool) {
	now := p.Estimate(n, costs, limits.RAMBytes)
	if now.Query <= outgrownFactor*p.Estimate(1, costs, limits.RAMBytes).Query {
		return Outgrowth{}, false
	}
	for later := n; later < mostDocuments; later *= 4 {
		better, err := ChoosePlanWithin(p.MaxDistance, later, limits, costs)
		if err != nil { // nothing is within the limits
			break
		}
		factor := p.Estimate(later, costs, limits.RAMBytes).Query / better.Estimate.Query
		if factor <= outgrownFactor {
			return Outgrowth{}, false
		}
		if later == n {
			o = Outgrowth{n, now, better, factor}
		}
	}
	return o, o.Factor > outgrownFactor
}

// String says it in a sentence.
func (o Outgrowth) String() string {
	return fmt.Sprintf("the plan is outgrown: among %d documents, design %s with %s would answer %.1f times faster, in %s instead of %s",
		o.Documents, o.Better.Design.Name, count(o.Better.Estimate.Tables, "table"), o.Factor,
		nanoseconds(o.Better.Estimate.Query), nanoseconds(o.Now.Query))
}
