package index

import (
	"errors"
	"fmt"
	"iter"

	"github.com/neardup/neardup/index/filter"
	"github.com/neardup/neardup/internal/store"
)

// savedFilter loads the filter that compaction saved of a table, or of the keys.
func (v *verifier) savedFilter(table, prefix int) (*filter.Prefix, error) {
	size, err := v.x.store.FilterBytes(table)
	if err != nil {
		return nil, err
	}
	chunks, any := 0, false
	saved, loadErr := filter.LoadPrefix(prefix, int64(2*size+1<<20), iter.Seq2[[]byte, error](func(yield func([]byte, error) bool) {
		err = each(v.s.FilterChunks(table), func(chunk []byte) bool {
			any = true
			chunks++
			return yield(chunk, nil)
		})
	}))
	if err != nil || !any {
		return nil, err
	}
	if loadErr != nil && !errors.Is(loadErr, filter.ErrUnusable) {
		return nil, loadErr
	}
	if loadErr != nil {
		v.problem(Malformed, "filter", fmt.Sprintf("%x%04x%08x", 'w', table, max(chunks-1, 0)), "the saved filter of table %x is of no use: %v", table, loadErr)
	}
	return saved, nil
}

// checkEntry asks the filters of a packed table, the saved one, if there is one, and the
// one that queries use, for an entry that it has.
func (v *verifier) checkEntry(saved *filter.Prefix, table int, permuted uint64) {
	if saved != nil && !saved.MayContain(permuted) || !v.x.packed.MayHave(table, permuted) {
		v.problem(FalseNegative, "filter", tableKey('u', table, permuted), "the filter of table %d says no to an entry of it", table)
	}
}

// checkLiveFilter asks the filters of what is live for a fingerprint that is. They may
// have been made after it was deleted: then the newest state does not have it.
func (v *verifier) checkLiveFilter(stored uint64) {
	if v.x.live.MayContain(stored) {
		return
	}
	if there, err := v.x.store.ContainsLive(0, stored); err == nil && there && !v.x.live.MayContain(stored) {
		v.problem(FalseNegative, "filter", tableKey('t', 0, stored), "the filters of live entries say no to one")
	}
}

// checkFilters asks the saved filter of the keys for those that it must know.
func (v *verifier) checkFilters() error {
	saved, err := v.savedFilter(store.KeyFilterTable, filter.KeyPrefix)
	if err != nil || saved == nil {
		return err
	}
	v.again = true
	defer func() { v.again = false }()
	return each(v.s.Keys(), func(k store.KeyEntry) bool {
		hash, ids := k.Hash, k.IDs
		for id := range ids.All() {
			if id < v.meta.NextID && !saved.MayContain(hash) {
				v.problem(FalseNegative, "filter", keyKey(hash), "the filter of keys says no to that of document %d", id)
			}
			break // they ascend
		}
		return !v.stopped
	})
}
