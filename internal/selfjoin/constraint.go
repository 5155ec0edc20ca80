package selfjoin

import "math/bits"

// constraint is what pairs of a group have to fulfil, so that each is found in one
// group only.
type constraint struct {
	equal   fp   // they agree in these bits
	unequal []fp // and differ in each of these
	free    fp   // of these bits at most budget differ
	budget  int
}

// allows reports whether a pair that differs in x is to be found here.
func (c *constraint) allows(x fp) bool {
	if x&c.equal != 0 {
		return false
	}
	for _, block := range c.unequal {
		if x&block == 0 {
			return false
		}
	}
	return true
}

// split chooses how to divide a group of n whose members differ in some bits.
func (c *constraint) split(n, k int, differ fp) split {
	best := split{cost: float64(n) * float64(n) / 2 * costCompare} // of comparing all with all
	if n <= compareAll || bits.OnesCount64(uint64(differ)) <= k {
		return best
	}
	best.consider(int64(n), c.free&differ, c.budget)
	if any := differ &^ c.equal; any != c.free&differ || k != c.budget {
		best.consider(int64(n), any, k)
	}
	return best
}

// step is one pass over a group: it is divided by a block, and the pairs that are looked
// for agree in that block.
type step struct {
	constraint
	block fp
	width float64 // bits of the block
	group *constraint
}

// before returns the constraint of the pairs that are left to this pass and to those
// after it.
func (s *step) before() *constraint {
	return &constraint{equal: s.group.equal, unequal: s.unequal}
}

// compareBudget returns how many comparisons a group may be left with, by all its passes
// together: if they are nearly as many as all its pairs, it is better to compare those.
// So clusters that no block tells apart can not multiply the work.
func compareBudget(n int) float64 { return 0.75 * float64(n) * float64(n) / 2 }

// steps returns the passes of a split, in order. unequal lists of later ones extend
// those of the ones before in place: use one after the other.
func (c *constraint) steps(s *split) func(yield func(step) bool) {
	return func(yield func(step) bool) {
		var room [maxBlocks]fp
		sub := step{constraint: constraint{unequal: c.unequal, free: s.bits, budget: s.budget}, width: s.width, group: c}
		for _, block := range blocksOf(s.bits, s.budget+1, s.width, room[:0]) {
			sub.block = block
			sub.equal = c.equal | block
			sub.free &^= block
			if !yield(sub) {
				return
			}
			sub.unequal = append(sub.unequal, block)
			sub.budget--
		}
	}
}

const maxBlocks = 65

// blocksOf cuts equal blocks from a mask, the lowest bits first.
func blocksOf(mask fp, n int, width float64, blocks []fp) []fp {
	cut := 0
	for i := 1; i <= n; i++ {
		end := int(float64(i)*width + 1e-9)
		b := lowest(mask, end-cut)
		blocks = append(blocks, b)
		mask &^= b
		cut = end
	}
	return blocks
}

// lowest returns the lowest n bits of a mask.
func lowest(mask fp, n int) fp {
	rest := mask
	for range n {
		rest &= rest - 1
	}
	return mask &^ rest
}
