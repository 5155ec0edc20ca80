package index

import (
	"errors"
	"iter"
	"sync/atomic"

	"github.com/neardup/neardup/index/filter"
	"github.com/neardup/neardup/index/plan"
	"github.com/neardup/neardup/internal/store"
)

// keyFilter tells which keys the index cannot have, by their hash: of nearly every
// page of a crawl that is the first thing to find out, and Pebble would read a block
// from disk for it. It is loaded or made in the background when the first change asks
// for it; until then every key may be there. Its methods are called by changes only.
type keyFilter struct {
	x       *Index
	filters atomic.Pointer[liveFilters] // under the commit lock but for reading; nil: not asked for yet
}

// NewKeyFilter returns an empty filter for so many keys, by their hashes, within its
// share of filterBytes (Options.FilterBytes); nil if that is nothing.
func NewKeyFilter(keys, filterBytes int64) (*filter.Prefix, error) {
	f, err := filter.NewPrefix(keyPlan.Tables[0].Prefix, keys, keyFilterBudget(filterBytes))
	if err != nil || f.PassesAll() {
		return nil, err
	}
	return f, nil
}

// keyFilterBudget is a quarter of all filters'.
func keyFilterBudget(filterBytes int64) int64 {
	return (&Options{FilterBytes: filterBytes}).filterBytes() / 4
}

// keyPlan makes live filters take a hash whole.
var keyPlan = &plan.Plan{Tables: []plan.Table{{Permutation: plan.Permutation{{First: 0, Last: 63}}, Prefix: 64}}}

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
		budget: keyFilterBudget(f.x.opts.FilterBytes),
		live:   int64(f.x.counters.Documents - f.x.counters.Bare),
		saved:  f.saved,
		commit: &f.x.commitMu,
		scan:   f.x.scan((*store.View).KeyHashes),
		failed: func(err error) { f.x.warn("the filter of keys", err) },
	})
	f.filters.Store(filters)
	return filters
}

// saved returns the filter that compaction left, and what yields the keys since then.
func (f *keyFilter) saved() (*filter.Prefix, func(yield func(uint64) bool) error, error) {
	s := f.x.store
	saved, err := filter.LoadPrefix(keyPlan.Tables[0].Prefix, keyFilterBudget(f.x.opts.FilterBytes), s.FilterChunks(store.KeyFilterTable))
	if errors.Is(err, filter.ErrUnusable) {
		return nil, nil, nil
	}
	return saved, f.x.scan(func(v *store.View) iter.Seq2[uint64, error] { return keysSince(v, s.PackedNextID()) }), err
}

// keysSince yields the hashes of the keys of the documents from an ID on.
func keysSince(v *store.View, first uint64) iter.Seq2[uint64, error] {
	return func(yield func(uint64, error) bool) {
		for r, err := range v.Records(first) {
			if err == nil && r.Key == "" {
				continue
			}
			if !yield(store.KeyHash(r.Key), err) || err != nil {
				return
			}
		}
	}
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
