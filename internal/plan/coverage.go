package plan

import (
	"cmp"
	"math/bits"
	"slices"
)

// uncovered searches for a counterexample: a set of at most MaxDistance bits that has more than
// Radius bits in the prefix of every table. A plan misses exactly the pairs of fingerprints that
// differ in such a set of bits. For irregular tables, the search can take very long. It then gives
// up, and decided is false.
//
// Each table demands more than Radius flips among the bits of its prefix. The search chooses two
// demands that share bits, and flips either one of the shared bits or none. Bits that belong to the
// same demands are equivalent, so the search tries only one of them. If the demands are disjoint,
// the lowest bits of each demand meet it. If disjoint demands need more flips than remain, the
// demands cannot be met.
func (p *Plan) uncovered() (flips uint64, found, decided bool) {
	demands := make([]demand, len(p.Tables))
	for i, t := range p.Tables {
		demands[i] = demand{t.mask(), t.Radius + 1}
	}
	c := coverage{workLeft: maxCoverageWork}
	flips, found = c.meet(demands, p.MaxDistance)
	return flips, found, found || c.workLeft >= 0
}

// coverage is the state of the search of uncovered.
type coverage struct{ workLeft int }

// maxCoverageWork limits the number of pairs of demands that a search examines, to about a second.
// The largest plan of any design, 20 for k = 16, needs a thirtieth of it.
const maxCoverageWork = 1 << 28

// demand requires at least n flips among the bits of a mask.
type demand struct {
	mask uint64
	n    int
}

// meet searches for a set of at most budget bits that meets every demand.
func (c *coverage) meet(demands []demand, budget int) (flips uint64, found bool) {
	if c.workLeft -= len(demands) * len(demands); c.workLeft < 0 {
		return 0, false
	}
	demands, possible := reduce(demands)
	if !possible || packing(demands) > budget {
		return 0, false
	}
	a, b, overlap := overlapping(demands)
	if !overlap { // and packing has shown that the budget suffices
		for _, d := range demands {
			flips |= lowest(d.mask, d.n)
		}
		return flips, true
	}
	block := alike(demands, a.mask&b.mask)
	bit := block & -block
	if flips, found = c.meet(without(demands, bit, 1), budget-1); found {
		return flips | bit, true
	}
	return c.meet(without(demands, block, 0), budget)
}

// reduce removes demands that are met or that follow from another demand. It returns false if a
// demand needs more flips than its mask has bits.
func reduce(demands []demand) ([]demand, bool) {
	sorted := slices.Clone(demands)
	slices.SortFunc(sorted, func(a, b demand) int {
		return cmp.Compare(bits.OnesCount64(a.mask), bits.OnesCount64(b.mask))
	})
	kept := sorted[:0]
	for _, d := range sorted {
		if d.n > bits.OnesCount64(d.mask) {
			return nil, false
		}
		follows := func(k demand) bool { return k.mask&^d.mask == 0 && k.n >= d.n }
		if d.n > 0 && !slices.ContainsFunc(kept, follows) {
			kept = append(kept, d)
		}
	}
	return kept, true
}

// packing returns a lower bound of the number of flips that meet all demands: the sum of disjoint
// demands. It prefers the first demands, which have the smallest masks.
func packing(demands []demand) int {
	taken, sum := uint64(0), 0
	for _, d := range demands {
		if d.mask&taken == 0 {
			taken |= d.mask
			sum += d.n
		}
	}
	return sum
}

// overlapping returns the two demands that share the most bits.
func overlapping(demands []demand) (a, b demand, found bool) {
	most := 0
	for i, d := range demands {
		for _, e := range demands[:i] {
			if shared := bits.OnesCount64(d.mask & e.mask); shared > most {
				a, b, most = d, e, shared
			}
		}
	}
	return a, b, most > 0
}

// without removes bits from every demand. Each removed bit counts as the given number of flips.
func without(demands []demand, mask uint64, flips int) []demand {
	rest := slices.Clone(demands)
	for i, d := range rest {
		if d.mask&mask != 0 {
			rest[i] = demand{d.mask &^ mask, d.n - flips}
		}
	}
	return rest
}

// alike returns the bits that are in the same demands as the first bit of mask.
func alike(demands []demand, mask uint64) uint64 {
	block, bit := ^uint64(0), mask&-mask
	for _, d := range demands {
		if d.mask&bit != 0 {
			block &= d.mask
		} else {
			block &^= d.mask
		}
	}
	return block
}

// lowest returns the n lowest bits of a mask.
func lowest(mask uint64, n int) uint64 {
	out := uint64(0)
	for range n {
		out |= mask & -mask
		mask &= mask - 1
	}
	return out
}
