package selfjoin

import "math/bits"

// Nanoseconds that the steps take for a fingerprint, or for a pair.
const (
	costPartition = 4.0
	costChain     = 2.5
	costCompare   = 0.7

	// compareAll: fewer are always compared with each other.
	compareAll = 24

	maxDepth = 8
	// maxPartitionBits: more parts at once and writing to them would miss the cache.
	maxPartitionBits = 13
	// maxChainBits are those of the largest table of chains.
	maxChainBits = 13
)

// split says how a group is divided: by each of some blocks in turn.
type split struct {
	bits   fp  // where the blocks are taken from
	budget int // of these at most so many differ in a pair that is looked for
	width  float64
	cost   float64
}

// none reports that all pairs are to be compared.
func (s *split) none() bool { return s.width == 0 }

// passes counts the ways to choose depth blocks of budget+depth: how often a fingerprint
// is handled at that depth.
func passes(budget, depth int) float64 {
	n := 1.0
	for i := 1; i <= depth; i++ {
		n *= float64(budget+i) / float64(i)
	}
	return n
}

// consider looks for a split by blocks from bits that costs less than s.
func (s *split) consider(n int64, from fp, budget int) {
	size, free := float64(n), float64(bits.OnesCount64(uint64(from)))
	above := 0.0
	for depth := 1; depth <= maxDepth; depth++ {
		width := free / float64(budget+depth)
		if width < 1 {
			return
		}
		if width > maxPartitionBits && n > maxChained {
			width = maxPartitionBits
		}
		leaves := passes(budget, depth)
		groups := exp2(width * float64(depth))
		cost := above + leaves*size*(costChain+size/groups/2*costCompare)
		if cost < s.cost {
			*s = split{from, budget, width, cost}
		}
		if groups > size {
			return
		}
		above += leaves * size * costPartition
	}
}

// exp2 is 2^x for x >= 0, near enough.
func exp2(x float64) float64 {
	if x >= 63 {
		return 1 << 63
	}
	whole := int(x)
	return float64(uint64(1)<<whole) * (1 + (x - float64(whole)))
}
