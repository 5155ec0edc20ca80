package plan

import (
	"errors"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/neardup/neardup/internal/testing/testenv"
)

// TestFewestFlips compares the search with a test of all sets of bits, for random demands.
func TestFewestFlips(t *testing.T) {
	const width = 7
	rng := rand.New(rand.NewPCG(testenv.Seed(t), 3))
	for range 20_000 {
		demands := make([]demand, 1+rng.IntN(6))
		for i := range demands {
			demands[i] = demand{1 + rng.Uint64N(1<<width-1), 1 + rng.IntN(3)}
		}
		unmet := func(flips uint64) bool {
			return slices.ContainsFunc(demands, func(d demand) bool {
				return bits.OnesCount64(flips&d.mask) < d.n
			})
		}
		fewest := width + 1 // if no set meets them
		for flips := range uint64(1 << width) {
			if !unmet(flips) {
				fewest = min(fewest, bits.OnesCount64(flips))
			}
		}
		for budget := range width + 1 {
			c := coverage{workLeft: maxCoverageWork}
			flips, found := c.meet(demands, budget)
			if found != (fewest <= budget) || found &&
				(unmet(flips) || bits.OnesCount64(flips) > budget) {
				t.Fatalf("%+v need %d flips; with a budget of %d: %b, %v", demands, fewest,
					budget, flips, found)
			}
		}
	}
}

// TestUndecidedPlanIsRefused tests that New refuses a plan if the search gives up. The prefixes of
// the many tables are random bits.
func TestUndecidedPlanIsRefused(t *testing.T) {
	const prefix = 16
	rng := rand.New(rand.NewPCG(15, 1))
	tables := []Table{leading([]Bits{{0, prefix - 1}})}
	for range 200 {
		var front []Bits
		for _, bit := range rng.Perm(64)[:prefix] {
			front = append(front, Bits{bit, bit})
		}
		tables = append(tables, leading(front))
	}
	if _, err := New(6, tables...); !errors.Is(err, ErrUnusable) ||
		!strings.Contains(err.Error(), "too many ways") {
		t.Error(err)
	}
}

// TestNoTableIsSuperfluous tests that the search finds a missed pair if one table of a design is
// removed.
func TestNoTableIsSuperfluous(t *testing.T) {
	for _, design := range []string{"2", "3", "4", "10", "16", "20"} {
		for k := range 7 {
			whole := mustPlan(t, design, k)
			for i := range whole.Tables {
				p := &Plan{MaxDistance: k,
					Tables: slices.Delete(slices.Clone(whole.Tables), i, i+1)}
				flips, found, decided := p.uncovered()
				if !decided || !found || bits.OnesCount64(flips) > k ||
					slices.ContainsFunc(p.Tables, func(t Table) bool {
						return bits.OnesCount64(flips&t.mask()) <= t.Radius
					}) {
					t.Errorf("design %s at k = %d without table %d: misses %016x, %v", design, k,
						i, flips, found)
				}
			}
		}
	}
}
