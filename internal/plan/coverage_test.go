package plan

import (
	"errors"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/neardup/neardup/internal/testenv"
	"pgregory.net/rapid"
)

// misses reports whether no table of a plan finds what differs in these bits.
func (p *Plan) misses(flips uint64) bool {
	for _, t := range p.Tables {
		if bits.OnesCount64(flips&t.mask()) <= t.Radius {
			return false
		}
	}
	return true
}

// someMissed tries every set of at most MaxDistance bits.
func (p *Plan) someMissed() bool {
	var walk func(flips uint64, from, left int) bool
	walk = func(flips uint64, from, left int) bool {
		if p.misses(flips) {
			return true
		}
		for bit := from; bit < 64 && left > 0; bit++ {
			if walk(flips|1<<bit, bit+1, left-1) {
				return true
			}
		}
		return false
	}
	return walk(0, 0, p.MaxDistance)
}

// TestUncovered compares the search with an exhaustive one, for tables of whole blocks,
// which often just cover or just do not, and for tables that cut anywhere.
func TestUncovered(t *testing.T) {
	for name, draw := range map[string]func(*rapid.T, int) *Plan{"blocks": drawBlockPlan, "any bits": drawPlan} {
		t.Run(name, func(t *testing.T) {
			outcomes := map[bool]int{}
			check := func(t *rapid.T) {
				p := draw(t, rapid.IntRange(0, 4).Draw(t, "k"))
				flips, found, decided := p.uncovered()
				if !decided {
					t.Fatalf("%v is not decided", p)
				}
				outcomes[found]++
				if found && (!p.misses(flips) || bits.OnesCount64(flips) > p.MaxDistance) {
					t.Fatalf("%v is said to miss %016x", p, flips)
				}
				if !found && p.someMissed() {
					t.Fatalf("%v is said to miss nothing", p)
				}
			}
			// The few plans of a short run may all be of one kind.
			for range 20 {
				if rapid.Check(t, check); outcomes[false] > 0 && outcomes[true] > 0 {
					return
				}
			}
			t.Errorf("%d plans cover, %d do not", outcomes[false], outcomes[true])
		})
	}
}

// TestFewestFlips compares the search with every set of some few bits, for demands that
// overlap in any way.
func TestFewestFlips(t *testing.T) {
	const width = 7
	rng := rand.New(rand.NewPCG(testenv.Seed(t), 3))
	for range 20_000 {
		demands := make([]demand, 1+rng.IntN(6))
		for i := range demands {
			demands[i] = demand{1 + rng.Uint64N(1<<width-1), 1 + rng.IntN(3)}
		}
		unmet := func(flips uint64) bool {
			return slices.ContainsFunc(demands, func(d demand) bool { return bits.OnesCount64(flips&d.mask) < d.n })
		}
		fewest := width + 1 // where no set meets them
		for flips := range uint64(1 << width) {
			if !unmet(flips) {
				fewest = min(fewest, bits.OnesCount64(flips))
			}
		}
		for budget := range width + 1 {
			c := coverage{workLeft: maxCoverageWork}
			flips, found := c.meet(demands, budget)
			if found != (fewest <= budget) || found && (unmet(flips) || bits.OnesCount64(flips) > budget) {
				t.Fatalf("%+v takes %d flips; with %d: %b, %v", demands, fewest, budget, flips, found)
			}
		}
	}
}

// TestUndecidedPlanIsRefused: a search that gave up, in about a second, proves nothing.
func TestUndecidedPlanIsRefused(t *testing.T) {
	p := tangledPlan()
	if _, err := New(p.MaxDistance, p.Tables...); !errors.Is(err, ErrUnusable) || !strings.Contains(err.Error(), "too many ways") {
		t.Error(err)
	}
}

// drawBlockPlan draws tables that lead with some of m blocks.
func drawBlockPlan(t *rapid.T, k int) *Plan {
	m := rapid.IntRange(1, 8).Draw(t, "blocks")
	blocks := split([]Bits{{0, 63}}, m)
	p := &Plan{MaxDistance: k}
	for range rapid.IntRange(1, 14).Draw(t, "tables") {
		chosen := rapid.Uint64Range(1, 1<<m-1).Draw(t, "chosen")
		var front []Bits
		for i, block := range blocks {
			if chosen>>i&1 != 0 {
				front = append(front, block...)
			}
		}
		table := leading(front)
		table.Radius = rapid.IntRange(0, 2).Draw(t, "radius")
		p.Tables = append(p.Tables, table)
	}
	return p
}

// TestNoTableIsSuperfluous: a design without any one of its tables is found out.
func TestNoTableIsSuperfluous(t *testing.T) {
	for _, d := range numbered {
		for k := 0; k <= 6; k++ {
			whole := mustPlan(t, d, k)
			for i := range whole.Tables {
				p := &Plan{MaxDistance: k}
				p.Tables = append(append(p.Tables, whole.Tables[:i]...), whole.Tables[i+1:]...)
				flips, found, decided := p.uncovered()
				if !decided || !found || !p.misses(flips) || bits.OnesCount64(flips) > k {
					t.Errorf("design %s at k = %d without table %d: misses %016x, %v", d, k, i, flips, found)
				}
			}
		}
	}
}

// tangledPlan returns many tables that lead with bits picked at random, which the search
// does not finish.
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
