package plan

import (
	"cmp"
	"math/bits"
	"slices"
)

// A plan misses a pair of fingerprints when the bits in which they differ leave more than
// Radius flips in the prefix of every table. uncovered searches for such a set of at most
// MaxDistance bits, and returns one if there is any; so a plan without one finds every
// match. Tables with little order in them can make the search take for ever: it gives up on
// those, and decided is false.
//
// Each table makes a demand: so many flips among the bits of its prefix. The search takes
// two demands that share bits, and flips one of the shared bits or none of them; all that
// counts is which demands a bit is in, so one bit stands for those that are in the same. It
// ends where demands are disjoint, which the cheapest bits of each meet, or where those
// that are ask for more flips than are left.
func (p *Plan) uncovered() (flips uint64, found, decided bool) {
	demands := make([]demand, len(p.Tables))
	for i, t := range p.Tables {
		demands[i] = demand{t.mask(), t.Radius + 1}
	}
	c := coverage{workLeft: maxCoverageWork}
	flips, found = c.meet(demands, p.MaxDistance)
	return flips, found, found || c.workLeft >= 0
}

// coverage is a search for what a plan misses.
type coverage struct{ workLeft int }

// maxCoverageWork bounds the pairs of demands that are looked at, to about a second. The
// largest plan of any design, 20 at k = 16, takes a thirtieth of it.
const maxCoverageWork = 1 << 28

// demand asks for at least n flips among the bits of a mask.
type demand struct {
	mask uint64
	n    int
}

// meet looks for a set of at most budget bits that meets every demand.
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

// reduce drops the demands that are met or that follow from another one. It
// reports false where one asks for more bits than it has.
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

// packing is a lower bound on the flips that meet all demands: what a choice of
// disjoint ones asks for together, small ones first.
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

// without takes bits out of every demand, met by that many flips each.
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
