package verify

import (
	"errors"
	"fmt"
	"iter"

	"github.com/neardup/neardup/internal/filter"
)

// checkTables compares the entries of each table with the entries of table 0, in the packed tables
// and in each epoch, and asks the filters for all of them.
func (v *verifier) checkTables() {
	parts := []part{}
	if v.View.Generation() > 0 {
		parts = append(parts, part{"packed", 'u', v.View.Packed, v.checkPackedFilters()})
	}
	for epoch := range v.View.Epochs() {
		set := v.Live[epoch]
		parts = append(parts, part{"live", 't', func(table int) iter.Seq2[uint64, error] { return v.View.Live(epoch, table) },
			func(table int, _, stored uint64) {
				if table == 0 && !set.MayContain(stored) {
					v.problem(FalseNegative, "filter", tableKey('t', 0, stored), "the filter of the live entries misses this entry")
				}
			}})
	}
	for _, p := range parts {
		first := v.tallyOf(&p, 0, newSeeds())
		for table := 1; table < len(v.Plan.Tables); table++ {
			other := v.tallyOf(&p, table, first.seeds)
			v.compare(&first, &other, v.fingerprints(&p, 0), v.fingerprints(&p, table), func(inFirst bool, stored, _ uint64) {
				key := tableKey(p.letter, table, v.Plan.Tables[table].Permute(stored))
				if inFirst {
					v.problem(Missing, p.keyspace, key, "table %d has no entry of fingerprint %016x, which is in table 0", table, stored)
				} else {
					v.problem(Unexpected, p.keyspace, key, "table %d has an entry of fingerprint %016x, which is not in table 0", table, stored)
				}
			})
		}
	}
}

// part is the packed tables, or the live entries of an epoch.
type part struct {
	keyspace string
	letter   rune
	entries  func(table int) iter.Seq2[uint64, error] // permuted fingerprints
	check    func(table int, permuted, stored uint64)
}

// fingerprints yields the stored fingerprints of a table of a part, each once.
func (v *verifier) fingerprints(p *part, table int) pairs {
	return func(add func(a, b uint64)) {
		t, previous, any := &v.Plan.Tables[table], uint64(0), false
		for permuted := range values(v, p.entries(table)) {
			if any && permuted == previous {
				continue
			}
			previous, any = permuted, true
			add(t.Invert(permuted), 0)
		}
	}
}

// tallyOf reads a table of a part.
func (v *verifier) tallyOf(p *part, table int, seeds [2]uint64) tally {
	t := tally{seeds: seeds}
	v.fingerprints(p, table)(func(stored, _ uint64) {
		t.add(stored, 0)
		p.check(table, v.Plan.Tables[table].Permute(stored), stored)
	})
	return t
}

// checkPackedFilters returns a function that asks the filters of a packed table, the saved one and
// the one that queries use, for an entry.
func (v *verifier) checkPackedFilters() func(table int, permuted, stored uint64) {
	loaded, saved := -1, (*filter.Prefix)(nil)
	return func(table int, permuted, _ uint64) {
		if loaded != table {
			loaded, saved = table, v.savedFilter(table, v.Plan.Tables[table].Prefix)
		}
		if saved != nil && !saved.MayContain(permuted) || !v.Packed.MayHave(table, permuted) {
			v.problem(FalseNegative, "filter", tableKey('u', table, permuted), "the filter of table %d misses an entry", table)
		}
	}
}

// savedFilter loads the filter that the last compaction saved of a table, or of the keys; nil if
// there is no usable one.
func (v *verifier) savedFilter(table, prefix int) *filter.Prefix {
	size, chunks := int64(0), 0
	for chunk := range values(v, v.View.FilterChunks(table)) {
		size, chunks = size+int64(len(chunk)), chunks+1
	}
	if chunks == 0 || v.failed != nil {
		return nil
	}
	saved, err := filter.LoadPrefix(prefix, 2*size+1<<20, v.View.FilterChunks(table))
	if errors.Is(err, filter.ErrUnusable) {
		v.problem(Malformed, "filter", fmt.Sprintf("%x%04x", 'w', table), "the saved filter of table %x is unusable: %v", table, err)
		return nil
	}
	v.fail(err)
	return saved
}

// Keys of entries, as docs/format.md describes them.

func documentKey(id uint64) string  { return fmt.Sprintf("%x%016x", 'd', id) }
func keyKey(hash, id uint64) string { return fmt.Sprintf("%x%016x%016x", 'k', hash, id) }

func tableKey(keyspace rune, table int, permuted uint64) string {
	return fmt.Sprintf("%x%04x%016x", keyspace, table, permuted)
}
