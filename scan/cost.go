package scan

import "math"

// Nanoseconds, of a common server; they only choose among designs that are all right.
const (
	insertCost    = 6   // to set a bit of a filter
	clearCost     = 0.3 // to get a byte of a filter from the system
	bucketCost    = 25  // to find a prefix in a table of queries
	candidateCost = 1.5 // to compare with a query
	sortCost      = 40  // to put a query into a table
	passCost      = 10  // to come back to a fingerprint that a filter lets through
)

// lookupCost is what a look into a filter takes: in the processor's own cache, in the
// shared one, and in memory, with many looks under way at once.
func (s shape) lookupCost() float64 {
	cost := 10.0
	switch {
	case s.bits <= 22: // 512 KiB
		cost = 2
	case s.bits <= 26: // 8 MiB
		cost = 4
	case s.bits <= 28:
		cost = 7
	}
	if s.hashed {
		cost += 0.5
	}
	return cost
}

func (s shape) fillingCost(queries int, n near) float64 {
	return insertCost*s.inserts(queries, n) + clearCost*math.Exp2(float64(s.bits))/8
}

// Cost returns the seconds of one core that a scan of n fingerprints is expected to
// take, for this many distinct queries, with preparation.
func Cost(queries int, k int, n int64, filterBytes int64) float64 {
	if filterBytes <= 0 {
		filterBytes = defaultFilterBytes
	}
	return choose(max(queries, 1), int(max(n, 1)), k, 64, filterBytes).total(int(n)) / 1e9
}
