package plan

import (
	"cmp"
	"math"
	"slices"
)

// splitFor is the number of fingerprints for which the lengths of blocks are chosen. It never
// changes, like the costs, since the name of a design identifies a plan.
const splitFor = 1_000_000_000

// blockTables returns the tables of the design blocks-m. Each table has a different block as its
// prefix. The sum of radius+1 over the tables is k+1, and the radii differ by at most 1. So k flips
// cannot exceed all radii at once (Norouzi, Punjani and Fleet, "Fast Search in Hamming Space with
// Multi-Index Hashing", 2012; Qin et al., "GPH", 2018).
//
// The lengths of the blocks minimize the cost of a query among a billion fingerprints. A block with
// a larger radius is longer. The lengths are nearly optimal for other numbers too: among 10
// thousand to 10 billion fingerprints, a query with the best m takes at most 1.6 times the minimum.
func blockTables(k, m int) []Table {
	radii := blockRadii(k, m)
	var tables []Table
	first := 0
	for i, prefix := range splitBlocks(radii, splitFor) {
		tables = append(tables, leading([]Bits{{first, first + prefix - 1}}))
		tables[i].Radius = radii[i]
		first += prefix
	}
	return tables
}

// blockRadii returns the radii of m tables in ascending order.
func blockRadii(k, m int) []int {
	radii := make([]int, m)
	for i := range radii {
		radii[i] = (k+1+i)/m - 1
	}
	return radii
}

// splitBlocks returns the lengths of one block per radius, at most 64 bits together, that minimize
// the time of a query among n fingerprints. The radii must ascend. Of the blocks with the same
// radius, longer ones come first.
func splitBlocks(radii []int, n int64) []int {
	// best[used] is the least cost of the tables so far if their blocks have used bits together.
	// taken[i][used] is the length of block i for this cost.
	best := slices.Repeat([]float64{math.Inf(1)}, 65)
	best[0] = 0
	taken := make([][65]int, len(radii))
	for i, radius := range radii {
		next := slices.Repeat([]float64{math.Inf(1)}, 65)
		for prefix := max(radius, 1); prefix <= 64; prefix++ {
			t := Table{Prefix: prefix, Radius: radius}
			if t.Probes() > maxTableProbes {
				break
			}
			cost := t.warm(t.estimate(n))
			for used := prefix; used <= 64; used++ {
				if sum := best[used-prefix] + cost; sum < next[used] {
					next[used], taken[i][used] = sum, prefix
				}
			}
		}
		best = next
	}
	used := slices.Index(best, slices.Min(best))
	lengths := make([]int, len(radii))
	for i := range slices.Backward(radii) {
		lengths[i] = taken[i][used]
		used -= lengths[i]
	}
	sortWithin(lengths, radii)
	return lengths
}

// sortWithin sorts the lengths of the blocks with the same radius in descending order.
func sortWithin(lengths, radii []int) {
	for from := 0; from < len(radii); {
		to := from + 1
		for to < len(radii) && radii[to] == radii[from] {
			to++
		}
		slices.SortFunc(lengths[from:to], func(a, b int) int { return cmp.Compare(b, a) })
		from = to
	}
}
