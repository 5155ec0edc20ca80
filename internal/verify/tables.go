package verify

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/neardup/neardup/internal/filter"
	"github.com/neardup/neardup/store"
)

// checkBlocks checks every fingerprint and posting of the packed blocks of a table.
func (v *verifier) checkBlocks(table int) {
	for b, err := range v.View.PackedBlocks(table, 0) {
		if err == nil {
			if err = b.Verify(); err != nil {
				err = fmt.Errorf("packed block %016x of table %d: %w", b.Last(), table, err)
			}
		}
		if v.fail(cmp.Or(err, v.ctx.Err())); v.failed != nil {
			return
		}
	}
}

// checkTables compares the other tables with table 0.
func (v *verifier) checkTables() {
	for table := 1; table < len(v.Plan.Tables); table++ {
		t := &v.Plan.Tables[table]
		live, packed := tally{seeds: v.live.seeds}, tally{seeds: v.packed.seeds}
		v.entries(table, false)(live.add)
		saved := v.savedFilter(table, t.Prefix)
		v.entries(table, true)(func(stored, _ uint64) {
			packed.add(stored, 0)
			v.checkPackedFilters(saved, table, t.Permute(stored))
		})
		v.checkBlocks(table)
		if v.failed == nil {
			v.compareTable(table, false, &v.live, &live)
			v.compareTable(table, true, &v.packed, &packed)
		}
	}
}

// entries are the stored fingerprints that have a live entry in a table, or a packed one.
func (v *verifier) entries(table int, packed bool) pairs {
	t, all := &v.Plan.Tables[table], v.View.Live(table)
	if packed {
		all = v.View.Packed(table)
	}
	return func(add func(a, b uint64)) {
		for permuted := range values(v, all) {
			add(t.Invert(permuted), 0)
		}
	}
}

// compareTable finds the entries by which a table differs from table 0.
func (v *verifier) compareTable(table int, packed bool, want, got *tally) {
	keyspace, letter := "table", 't'
	if packed {
		keyspace, letter = "packed", 'u'
	}
	v.compare(want, got,
		func(add func(a, b uint64)) {
			for p := range values(v, v.View.Postings(0)) {
				if packed && p.Packed || !packed && p.Spread {
					add(p.Stored, 0)
				}
			}
		},
		v.entries(table, packed),
		func(inFirst bool, stored, _ uint64) {
			key := tableKey(letter, table, v.Plan.Tables[table].Permute(stored))
			if inFirst {
				v.problem(Missing, keyspace, key, "table %d has no entry of fingerprint %016x, which is in table 0", table, stored)
			} else {
				v.problem(Unexpected, keyspace, key, "table %d has an entry of fingerprint %016x, which is not in table 0", table, stored)
			}
		})
}

// savedFilter loads the filter that compaction saved of a table, or of the keys; nil if
// there is none that can be used.
func (v *verifier) savedFilter(table, prefix int) *filter.Prefix {
	size, err := v.Store.FilterBytes(table)
	if err != nil {
		v.fail(err)
		return nil
	}
	if v.Store.Now().Generation() != v.View.Generation() { // it was packed again meanwhile: that is the size of another one
		for chunk, err := range v.View.FilterChunks(table) {
			if err != nil {
				break // it is told below
			}
			size += uint64(len(chunk))
		}
	}
	chunks := 0
	saved, err := filter.LoadPrefix(prefix, int64(2*size+1<<20), func(yield func([]byte, error) bool) {
		for chunk := range values(v, v.View.FilterChunks(table)) {
			if chunks++; !yield(chunk, nil) {
				return
			}
		}
	})
	switch {
	case chunks == 0 || v.failed != nil:
		return nil
	case errors.Is(err, filter.ErrUnusable):
		v.problem(Malformed, "filter", fmt.Sprintf("%x%04x%08x", 'w', table, chunks-1), "the saved filter of table %x is of no use: %v", table, err)
		return nil
	}
	v.fail(err)
	return saved
}

// checkPackedFilters asks the filters of a packed table, the saved one, if there is one,
// and the one that queries use, for an entry that it has.
func (v *verifier) checkPackedFilters(saved *filter.Prefix, table int, permuted uint64) {
	if saved != nil && !saved.MayContain(permuted) || !v.Packed.MayHave(table, permuted) {
		v.problem(FalseNegative, "filter", tableKey('u', table, permuted), "the filter of table %d says no to an entry of it", table)
	}
}

// checkKeyFilters asks the filter of the keys, the saved one and that in memory, for those that
// each must know.
func (v *verifier) checkKeyFilters() {
	saved := v.savedFilter(store.KeyFilterTable, filter.KeyPrefix)
	if v.Keys != nil {
		v.fail(v.Keys.Wait(v.ctx))
	}
	if saved == nil && v.Keys == nil || v.failed != nil {
		return
	}
	for k := range values(v, v.View.Keys()) {
		if v.Keys != nil && !v.Keys.MayContain(k.Hash) {
			v.problem(FalseNegative, "filter", keyKey(k.Hash), "the filter of keys in memory says no to one")
		}
		if saved == nil {
			continue
		}
		for id := range k.IDs.All() {
			if id < v.meta.NextID && !saved.MayContain(k.Hash) {
				v.problem(FalseNegative, "filter", keyKey(k.Hash), "the filter of keys says no to that of document %d", id)
			}
			break // they ascend
		}
	}
}
