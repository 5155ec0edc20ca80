package index

// For the tests of what is seen from outside.

const (
	LeastWindow = leastWindow
	RaceEnabled = raceEnabled
)

// SetMaxBatchHits sets how many hits a batch keeps, until restore is called.
func SetMaxBatchHits(n int64) (restore func()) {
	before := maxBatchHits
	maxBatchHits = n
	return func() { maxBatchHits = before }
}

// HasNear reports whether what is live is searched in memory.
func (x *Index) HasNear() bool {
	_, known := x.state.Load().written().AppendNear(nil, 0, x.Plan().MaxDistance)
	return known
}
