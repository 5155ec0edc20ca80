package index

import "fmt"

// Costs of a query on the live tables in nanoseconds, as BenchmarkScan measures
// them on a warm cache: what a probe and what each candidate adds.
const (
	probeCost     = 3000
	candidateCost = 60
)

// maxChosenTables bounds the space that a plan takes without being asked to:
// each table is a copy of all fingerprints.
const maxChosenTables = 32

// Cost returns the expected time of a query among n uniformly distributed
// fingerprints, in nanoseconds.
func (p *Plan) Cost(n float64) float64 {
	return float64(p.Probes())*probeCost + p.Candidates(n)*candidateCost
}

// ChoosePlan returns the plan with the least expected query time at distance k
// among n documents, of those designs that have at most 32 tables; where none has,
// the one with the fewest.
func ChoosePlan(k int, n int64) (*Plan, error) {
	var best *Plan
	for _, d := range Designs() {
		if best != nil && d.tables(k) > maxChosenTables {
			continue
		}
		p, err := d.Plan(k)
		if err != nil {
			return nil, fmt.Errorf("design %s: %w", d.Name, err)
		}
		if best == nil || p.Cost(float64(n)) < best.Cost(float64(n)) {
			best = p
		}
	}
	return best, nil
}

// tables returns how many tables the design has at a distance.
func (d Design) tables(k int) int { return len(d.build(k)) }
