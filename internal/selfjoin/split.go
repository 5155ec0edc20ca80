package selfjoin

import "math/bits"

// Times in nanoseconds per fingerprint, and of costCompare per pair.
const (
	costPartition = 4.0
	costChain     = 2.5
	costCompare   = 0.7

	// Groups of fewer than compareAll fingerprints are always compared pair by pair.
	compareAll = 24

	maxDepth = 8
	// With more than 2^maxPartitionBits parts, writes to the parts would miss the cache.
	maxPartitionBits = 13
	// maxChainBits is the number of bits of the largest table of chains.
	maxChainBits = 13
)

// split is a division of a group by several blocks in turn.
type split struct {
	bits   fp      // the blocks consist of these bits
	budget int     // a pair differs in at most budget of these bits
	width  float64 // bits per block; 0: all pairs are compared instead
	cost   float64 // nanoseconds
}

// none reports whether all pairs are compared instead.
func (s *split) none() bool { return s.width == 0 }

// passes returns the number of ways to choose depth of budget+depth blocks, which is how often each
// fingerprint is processed at this depth.
func passes(budget, depth int) float64 {
	n := 1.0
	for i := 1; i <= depth; i++ {
		n *= float64(budget+i) / float64(i)
	}
	return n
}

// consider sets s to a split by blocks of the bits in from, if one costs less than s.
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

// exp2 returns approximately 2^x for x >= 0.
func exp2(x float64) float64 {
	if x >= 63 {
		return 1 << 63
	}
	whole := int(x)
	return float64(uint64(1)<<whole) * (1 + (x - float64(whole)))
}
