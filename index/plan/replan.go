package plan

import "fmt"

// replanFactor is by how much another plan must be faster to be worth rewriting an index
// for.
const replanFactor = 2

// mostDocuments is how far ahead ReplanAdvice looks.
const mostDocuments = 1 << 40

// Advice is a plan that suits an index better than the one that it has.
type Advice struct {
	Documents int64
	Now       Estimate // of the plan that it has
	Better    Choice   // for that many documents
	Factor    float64  // how many times faster it answers
}

// ReplanAdvice reports whether an index of n documents with this plan would answer more
// than twice as fast with the plan that Choose gives. There is no advice while the plan is
// as fast as it ever was, or where it is good for some number of documents still to come.
//
// It takes microseconds, but where there is advice, or nearly so, as long as choosing
// twenty plans (BenchmarkChoose).
func (p *Plan) ReplanAdvice(n int64, limits Limits, costs Costs) (advice Advice, found bool) {
	now := p.Estimate(n, costs, limits.RAMBytes)
	if now.Query <= replanFactor*p.Estimate(1, costs, limits.RAMBytes).Query {
		return Advice{}, false
	}
	for later := n; later < mostDocuments; later *= 4 {
		better, err := Choose(p.MaxDistance, later, limits, costs)
		if err != nil { // nothing is within the limits
			break
		}
		factor := p.Estimate(later, costs, limits.RAMBytes).Query / better.Estimate.Query
		if factor <= replanFactor {
			return Advice{}, false
		}
		if later == n {
			advice = Advice{n, now, better, factor}
		}
	}
	return advice, advice.Factor > replanFactor
}

// String says it in a sentence.
func (a Advice) String() string {
	return fmt.Sprintf("the plan is outgrown: among %d documents, design %s with %s would answer %.1f times faster, in %s instead of %s",
		a.Documents, a.Better.Design, count(len(a.Better.Plan.Tables), "table"), a.Factor,
		nanoseconds(a.Better.Estimate.Query), nanoseconds(a.Now.Query))
}
