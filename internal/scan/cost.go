package scan

// Nanoseconds of a core, as measured for a million queries on a server of 2023 (AMD EPYC,
// 32 MiB of shared cache). They only choose among designs that are all right.
const (
	distinctCost  = 70  // to sort a query
	sortCost      = 20  // to put it into a table
	cachedLookup  = 2   // to look into a filter that is in a core's own cache
	insertCost    = 4   // to set the bits of a variant in a filter
	clearCost     = 1   // to get a byte of a filter from the system
	passCost      = 40  // to come back to a fingerprint that a filter lets through
	bucketCost    = 50  // to find a prefix in a table of queries
	candidateCost = 3   // to compare with a query there
	compareCost   = 1.8 // to compare with one query after the other
)

// lookupCost is what a look into a filter takes: in the processor's own cache, in the
// shared one, and in memory, with many looks under way at once.
func (s shape) lookupCost() float64 {
	cost := min(13, cachedLookup+1.7*float64(max(s.bits-22, 0)))
	if s.hashed {
		cost += 0.5
	}
	return cost
}

func (s shape) fillingCost(queries int, n near) float64 {
	return insertCost*s.inserts(queries, n) + clearCost*float64(s.bytes())
}

// Cost returns the seconds of one core that a scan is expected to take, for this many
// distinct queries, with preparation and few matches.
func Cost(queries int, k int, o Options) float64 {
	o, queries = o.orDefault(), max(queries, 1)
	return (distinctCost*float64(queries) + choose(queries, k, 64, o).total(o.Collection)) / 1e9
}
