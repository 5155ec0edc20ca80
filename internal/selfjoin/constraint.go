package selfjoin

import "math/bits"

// constraint restricts the pairs of a group, so that each pair is found in only one group.
type constraint struct {
	equal   fp   // a pair is equal in these bits
	unequal []fp // and different in each of these blocks
	free    fp   // and different in at most budget of these bits
	budget  int
}

// allows reports whether a pair that differs in the bits x meets equal and unequal.
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

// split chooses the division of a group of n members that differ only in the bits of differ.
func (c *constraint) split(n, k int, differ fp) split {
	best := split{cost: float64(n) * float64(n) / 2 * costCompare} // of comparing all pairs
	if n <= compareAll || bits.OnesCount64(uint64(differ)) <= k {
		return best
	}
	best.consider(int64(n), c.free&differ, c.budget)
	if any := differ &^ c.equal; any != c.free&differ || k != c.budget {
		best.consider(int64(n), any, k)
	}
	return best
}

// step is one pass over a group. The pass divides the group by a block and finds the pairs that are
// equal in this block.
type step struct {
	constraint
	block fp
	width float64 // bits of the block
	group *constraint
}

// before returns the constraint of the pairs that remain before this pass.
func (s *step) before() *constraint {
	return &constraint{equal: s.group.equal, unequal: s.unequal}
}

// compareBudget returns the largest number of comparisons for all passes of a group. If the passes
// need nearly as many comparisons as the group has pairs, comparing all pairs is cheaper. This
// bounds the work for clusters that no block divides.
func compareBudget(n int) float64 { return 0.75 * float64(n) * float64(n) / 2 }

// steps returns the passes of a split, in order. The unequal lists of the passes share memory, so
// the caller must finish a pass before it begins the next one.
func (c *constraint) steps(s *split) func(yield func(step) bool) {
	return func(yield func(step) bool) {
		var room [maxBlocks]fp
		sub := step{constraint: constraint{unequal: c.unequal, free: s.bits, budget: s.budget},
			width: s.width, group: c}
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

// blocksOf appends n blocks of width bits each, cut from the mask, the lowest bits first. If width
// is not a whole number, the sizes of the blocks differ by 1.
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
