package index

// The functions below are for tests in package index_test.

// HasNear reports whether the live entries are searched in memory.
func (x *Index) HasNear() bool {
	_, known := x.state.Load().newest().AppendNear(nil, 0, x.plan.MaxDistance)
	return known
}

// AroundView sets a function that is called just before and just after a reader opens its view.
func (x *Index) AroundView(f func()) { x.aroundView = f }

// AroundApply sets a function that is called just before and just after a commit is applied.
func (x *Index) AroundApply(f func()) { x.aroundApply = f }

// SetBatchLimits sets the number of queries of a pass over the index, and the number of hits that
// it keeps, until restore is called.
func SetBatchLimits(queries int, hits int64) (restore func()) {
	queriesBefore, hitsBefore := passQueries, maxBatchHits
	passQueries, maxBatchHits = queries, hits
	return func() { passQueries, maxBatchHits = queriesBefore, hitsBefore }
}

// ListWrites sets the number of recent writes that the index keeps. It must be called before all
// other methods.
func (x *Index) ListWrites(n int) { x.recent.ring = make([]recentWrite, n) }
