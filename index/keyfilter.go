package index

import (
	"sync/atomic"

	"github.com/neardup/neardup/store"
)

// keyFilter tells which keys the index cannot have, by their hash: of nearly every
// page of a crawl that is the first thing to find out, and Pebble would read a block
// from disk for it. It is made in the background when the first change asks for it;
// until then every key may be there. Its methods are called by changes only.
type keyFilter struct {
	x       *Index
	budget  int64
	filters atomic.Pointer[liveFilters] // under the commit lock but for reading; nil: not asked for yet
}

// keyPlan makes live filters take a hash whole.
var keyPlan = &Plan{Tables: []Table{{Permutation: Permutation{{0, 63}}, Prefix: 64}}}

func newKeyFilter(x *Index, budget int64) *keyFilter {
	return &keyFilter{x: x, budget: budget}
}

// mayContain reports whether a document may have a key of this hash.
func (f *keyFilter) mayContain(hash uint64) bool {
	filters := f.filters.Load()
	if filters == nil {
		filters = f.start()
	}
	return filters.mayContain(hash)
}

// start begins to make the filter.
func (f *keyFilter) start() *liveFilters {
	f.x.commitMu.Lock()
	defer f.x.commitMu.Unlock()
	if filters := f.filters.Load(); filters != nil {
		return filters
	}
	filters := newLiveFilters(liveSource{
		plan:   keyPlan,
		budget: f.budget,
		live:   int64(f.x.counters.Documents - f.x.counters.Bare),
		commit: &f.x.commitMu,
		scan:   f.x.scan((*store.View).KeyHashes),
		failed: func(err error) { f.x.warn("the filter of keys", err) },
	})
	f.filters.Store(filters)
	return filters
}

// add notes the keys that a change writes, with the commit lock held.
func (f *keyFilter) add(keys map[uint64]keyChange) {
	filters := f.filters.Load()
	if filters == nil {
		return // it is not asked for yet, and will be made of what is written
	}
	var hashes []uint64
	for hash, key := range keys {
		if key.changed {
			hashes = append(hashes, hash)
		}
	}
	filters.add(hashes)
}

func (f *keyFilter) bytes() int64 {
	if filters := f.filters.Load(); filters != nil {
		return filters.bytes()
	}
	return 0
}

// close stops what goes on in the background and waits for its end.
func (f *keyFilter) close() {
	if filters := f.filters.Load(); filters != nil {
		filters.close()
	}
}
