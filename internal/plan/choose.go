package plan

import "fmt"

// maxChosenTables is the largest number of tables that Choose considers. Each table is a copy of
// all fingerprints.
const maxChosenTables = 32

// Choice is the result of Choose.
type Choice struct {
	Design   string // its name, see Named
	Plan     *Plan
	Estimate Estimate
}

// Choose returns the plan of at most 32 tables for distance k among n documents that has the least
// product of query time and number of tables. Disk space, memory, and the work of writes and
// compactions grow with the number of tables, so twice as many tables must answer in less than half
// of the time. Error: ErrUnusable, if k is out of range.
func Choose(k int, n int64) (Choice, error) {
	if err := checkDistance(k); err != nil {
		return Choice{}, err
	}
	var best Choice
	for _, name := range Designs(k) {
		tables, err := tablesOf(name, k)
		if err != nil {
			return Choice{}, err
		}
		// New is slow for many tables, so it is called only for the chosen plan.
		p := &Plan{MaxDistance: k, Tables: tables}
		c := Choice{name, p, p.Estimate(n)}
		if len(tables) <= maxChosenTables && (best.Plan == nil || c.score() < best.score()) {
			best = c
		}
	}
	var err error
	if best.Plan, err = New(k, best.Plan.Tables...); err != nil {
		return Choice{}, fmt.Errorf("design %s: %w", best.Design, err)
	}
	return best, nil
}

func (c *Choice) score() float64 { return c.Estimate.Warm * float64(len(c.Estimate.Tables)) }
