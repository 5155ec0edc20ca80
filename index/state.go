package index

import (
	"slices"
	"sync/atomic"

	"github.com/neardup/neardup/internal/filter"
	"github.com/neardup/neardup/internal/store"
)

// state is what there is to look at between two steps of a compaction: the tables, and the filters that tell
// what need not be looked for in them. A step makes another one, under the commit lock. Whoever holds an older one
// goes on with it: it answers of the last moment before the step.
type state struct {
	tables *store.Tables
	packed *filter.Set   // of what the last compaction packed
	live   []*filter.Set // of what was written since, by epoch: the last takes what is written
	keys   *filter.Set   // of the hashes of keys

	nextID atomic.Uint64 // at the end of its time; 0: it is in use
}

// hold returns the state of this moment. Release of its tables must follow.
func (x *Index) hold() *state {
	for {
		s := x.state.Load()
		s.tables.Hold()
		if x.state.Load() == s {
			return s
		}
		s.tables.Release() // the index may have let go of it
	}
}

// setState puts a state, with its own hold of its tables, in the place of the one before. The commit lock must be held.
func (x *Index) setState(next *state) error {
	before := x.state.Swap(next)
	before.nextID.Store(x.counters.NextID)
	return before.tables.Release()
}

// written is the filters of what is written now.
func (s *state) written() *filter.Set { return s.live[len(s.live)-1] }

// mayBeLive reports whether there may be a live entry of a stored fingerprint, in any epoch.
func (s *state) mayBeLive(stored uint64) bool {
	for _, live := range s.live {
		if live.MayContain(stored) {
			return true
		}
	}
	return false
}

// sets are all its filters.
func (s *state) sets() []*filter.Set {
	return append(slices.Clone(s.live), s.packed, s.keys)
}
