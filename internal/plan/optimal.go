package plan

import "math"

// OptimalTables returns the paper's X(f, k, d) (section 3.1.2): the least number of tables with
// which a query at distance k among 2^d fingerprints of f bits has at most 2^threshold candidates
// per table. The bits are cut into r > k blocks, of which r-k are the prefix of a table. This is
// repeated with the remaining bits. As in the paper, f/r need not be a whole number.
func OptimalTables(f float64, k int, d, threshold float64) float64 {
	if d <= threshold {
		return 1
	}
	best := math.Inf(1)
	// A prefix of r-k blocks of f/r bits each is matched. There are at most as many blocks as bits.
	for r := k + 1; float64(r) <= f; r++ {
		matched := float64(r-k) * f / float64(r)
		if tables := binomial(r, k); tables < best {
			best = min(best, tables*OptimalTables(f-matched, k, d-matched, threshold))
		}
	}
	return best
}

// binomial returns r over k.
func binomial(r, k int) float64 {
	n := 1.0
	for i := range k {
		n = n * float64(r-i) / float64(i+1)
	}
	return n
}
