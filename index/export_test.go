package index

// For the tests of what is seen from outside.

// SetMaxBatchHits sets the number of hits that a pass over the index keeps, until restore is called.
func SetMaxBatchHits(n int64) (restore func()) {
	before := maxBatchHits
	maxBatchHits = n
	return func() { maxBatchHits = before }
}

// RememberedRemovals is how many removals an index remembers.
const RememberedRemovals = rememberedRemovals

// HasNear reports whether what is live is searched in memory.
func (x *Index) HasNear() bool {
	_, known := x.state.Load().written().AppendNear(nil, 0, x.Plan().MaxDistance)
	return known
}

// HoldCommits keeps commits from being applied, until release is called.
func (x *Index) HoldCommits() (release func()) {
	x.commitMu.Lock()
	return x.commitMu.Unlock
}

// Joined returns how many changes wait to be applied together.
func (x *Index) Joined() int {
	x.joining.mu.Lock()
	defer x.joining.mu.Unlock()
	if x.joining.next == nil {
		return 0
	}
	return len(x.joining.next.changes)
}

// Commits returns how many commits there were.
func (x *Index) Commits() uint64 { return x.applied.Load() }

// Pending returns how many writes have begun and are to end.
func (x *Index) Pending() int {
	x.pending.mu.Lock()
	defer x.pending.mu.Unlock()
	return len(x.pending.open)
}
