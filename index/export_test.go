package index

// For tests in package index_test.

// HasNear reports whether the live entries are searched in memory.
func (x *Index) HasNear() bool {
	_, known := x.state.Load().newest().AppendNear(nil, 0, x.Plan().MaxDistance)
	return known
}

// AroundView lets f be called just before a reader takes its view, and just after.
func (x *Index) AroundView(f func()) { x.aroundView = f }

// AroundApply lets f be called just before a commit is applied, and just after.
func (x *Index) AroundApply(f func()) { x.aroundApply = f }

// Commits returns the number of commits so far.
func (x *Index) Commits() uint64 { return x.applied.Load() }

// SetMaxBatchHits sets the number of hits that a pass over the index keeps, until restore is called.
func SetMaxBatchHits(n int64) (restore func()) {
	before := maxBatchHits
	maxBatchHits = n
	return func() { maxBatchHits = before }
}

// RecentLimit is the number of recent writes that an index lists.
const RecentLimit = recentLimit
