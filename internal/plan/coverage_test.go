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

// misses reports whether no table of a plan finds a fingerprint that differs in these bits.
func (p *Plan) misses(flips uint64) bool {
	for _, t := range p.Tables {
		if bits.OnesCount64(flips&t.mask()) <= t.Radius {
			return false
		}
	}
	return true
}

// TestFewestFlips compares the search with every small set of bits, for demands that overlap in
// any way.
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
				t.Fatalf("%+v takes %d flips; with %d: %b, %v", demands, fewest,
					budget, flips, found)
			}
		}
	}
}

// TestUndecidedPlanIsRefused tests that a plan is refused if the search gives up, after about a
// second.
func TestUndecidedPlanIsRefused(t *testing.T) {
	p := tangledPlan()
	if _, err := New(p.MaxDistance, p.Tables...); !errors.Is(err, ErrUnusable) ||
		!strings.Contains(err.Error(), "too many ways") {
		t.Error(err)
	}
}

// TestNoTableIsSuperfluous tests that the search finds a missed pair if any one table of a design
// is removed.
func TestNoTableIsSuperfluous(t *testing.T) {
	for _, d := range numbered {
		for k := 0; k <= 6; k++ {
			whole := mustPlan(t, d, k)
			for i := range whole.Tables {
				p := &Plan{MaxDistance: k}
				p.Tables = append(append(p.Tables, whole.Tables[:i]...), whole.Tables[i+1:]...)
				flips, found, decided := p.uncovered()
				if !decided || !found || !p.misses(flips) || bits.OnesCount64(flips) > k {
					t.Errorf("design %s at k = %d without table %d: misses %016x, %v", d, k,
						i, flips, found)
				}
			}
		}
	}
}

// tangledPlan returns many tables that lead with random bits. The search does not finish for
// them.
func tangledPlan() *Plan {
	const prefix = 16
	rng := rand.New(rand.NewPCG(15, 1))
	p := &Plan{MaxDistance: 6}
	for i := range 200 {
		var front []Bits
		for _, bit := range rng.Perm(64)[:prefix] {
			front = append(front, Bits{bit, bit})
		}
		if i == 0 {
			front = []Bits{{0, prefix - 1}}
		}
		p.Tables = append(p.Tables, leading(front))
	}
	return p
}
