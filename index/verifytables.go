package index

import (
	"github.com/neardup/neardup/internal/store"
)

// tableCheck is what table 0 says of the others.
type tableCheck struct {
	live   tally // fingerprints that have a live entry and no packed one
	packed tally
}

// checkPostings reads table 0.
func (v *verifier) checkPostings() error {
	saved, err := v.savedFilter(0, v.x.plan.Tables[0].Prefix)
	if err != nil {
		return err
	}
	var posted tally
	err = each(v.s.Postings(0), func(p store.Posting) bool {
		switch {
		case p.Packed:
			v.tables.packed.add(v.seeds, p.Stored, 0)
			v.checkEntry(saved, 0, p.Stored)
		default:
			v.tables.live.add(v.seeds, p.Stored, 0)
		}
		if p.Live {
			v.checkLiveFilter(p.Stored)
		}
		v.checkPosting(tableKey('t', 0, p.Stored), p.Stored, p.IDs, &posted)
		return !v.stopped
	})
	if err != nil {
		return err
	}
	if err := v.checkPackedTable(0); err != nil {
		return err
	}
	return v.compareDocuments(posted, func(yield func(uint64, store.IDs) bool) error {
		err := each(v.s.Postings(0), func(p store.Posting) bool { return yield(p.Stored, p.IDs) })
		return err
	})
}

// checkPackedTable compares what was found of a packed table with meta and the directory.
func (v *verifier) checkPackedTable(table int) error {
	found := v.s.Seen(table)
	var said store.PackedTableInfo
	if table < len(v.meta.Packed) {
		said = v.meta.Packed[table]
	}
	if found != said && v.s.Complete("meta", "packed") {
		v.problem(Miscounted, "meta", "", "packed table %d: %+v, and meta says %+v", table, found, said)
	}
	return v.s.CheckDirectory(table)
}

// checkTables compares the other tables with table 0.
func (v *verifier) checkTables() error {
	for i := 1; i < len(v.x.plan.Tables); i++ {
		if err := v.checkTable(i); err != nil {
			return err
		}
	}
	return nil
}

func (v *verifier) checkTable(table int) error {
	t := &v.x.plan.Tables[table]
	var live, packed tally
	err := each(v.s.Live(table), func(permuted uint64) bool {
		live.add(v.seeds, t.Invert(permuted), 0)
		return !v.stopped
	})
	if err != nil {
		return err
	}
	saved, err := v.savedFilter(table, v.x.plan.Tables[table].Prefix)
	if err != nil {
		return err
	}
	var fps []uint64
	err = each(v.s.PackedBlocks(table, 0), func(b *store.Block) bool {
		fps = b.AppendTo(fps[:0])
		for _, permuted := range fps {
			packed.add(v.seeds, t.Invert(permuted), 0)
			v.checkEntry(saved, table, permuted)
		}
		return !v.stopped
	})
	if err == nil {
		err = v.checkPackedTable(table)
	}
	if err != nil || !v.complete("entries of table with table 0", "table", "packed") {
		return err
	}
	if live != v.tables.live {
		err = v.compareTables(table, false, &v.tables.live, &live)
	}
	if err == nil && packed != v.tables.packed {
		err = v.compareTables(table, true, &v.tables.packed, &packed)
	}
	return err
}

// compareTables finds the entries by which a table differs from table 0.
func (v *verifier) compareTables(table int, packed bool, want, got *tally) error {
	t := &v.x.plan.Tables[table]
	keyspace, letter := "table", 't'
	if packed {
		keyspace, letter = "packed", 'u'
	}
	return v.differences(want, got,
		func(add func(a, b uint64)) error {
			err := each(v.s.Postings(0), func(p store.Posting) bool {
				if p.Packed == packed {
					add(p.Stored, 0)
				}
				return true
			})
			return err
		},
		func(add func(a, b uint64)) error {
			if !packed {
				return each(v.s.Live(table), func(permuted uint64) bool { add(t.Invert(permuted), 0); return true })
			}
			err := each(v.s.PackedBlocks(table, 0), func(b *store.Block) bool {
				for _, permuted := range b.AppendTo(nil) {
					add(t.Invert(permuted), 0)
				}
				return true
			})
			return err
		},
		func(inFirst bool, stored, _ uint64) {
			key := tableKey(letter, table, t.Permute(stored))
			if inFirst {
				v.problem(Missing, keyspace, key, "table %d has no entry of fingerprint %016x, which is in table 0", table, stored)
			} else {
				v.problem(Unexpected, keyspace, key, "table %d has an entry of fingerprint %016x, which is not in table 0", table, stored)
			}
		})
}
