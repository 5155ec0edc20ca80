package index

// The functions below are for tests in package index_test.

// HasNear reports whether the live entries are searched in memory.
func (x *Index) HasNear() bool {
	_, known := x.state.Load().newest().AppendNear(nil, 0, x.plan.MaxDistance)
	return known
}

// AroundView lets f be called just before a reader takes its view, and just after.
func (x *Index) AroundView(f func()) { x.aroundView = f }

// AroundApply lets f be called just before a commit is applied, and just after.
func (x *Index) AroundApply(f func()) { x.aroundApply = f }

// SetBatchLimits sets the number of queries of a pass over the index, and the number of hits that
// it keeps, until restore is called.
func SetBatchLimits(queries int, hits int64) (restore func()) {
	queriesBefore, hitsBefore := batchWindow, maxBatchHits
	batchWindow, maxBatchHits = queries, hits
	return func() { batchWindow, maxBatchHits = queriesBefore, hitsBefore }
}

// ListWrites sets the number of recent writes that an index lists. It must be called before all
// other methods.
func (x *Index) ListWrites(n int) { x.recent.ring = make([]recentWrite, n) }
