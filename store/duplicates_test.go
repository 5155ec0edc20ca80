package store

import (
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/internal/duplicates"
)

// TestDuplicatesAreAdded tests that counts of several commits add up: in a view, after a flush,
// after a compaction of the records, and after a restart. A count that was deleted must begin
// again at zero.
func TestDuplicatesAreAdded(t *testing.T) {
	fsys := vfs.NewMem()
	s := openIn(t, fsys)
	one, other := duplicates.Count{Checks: 1, Texts: duplicates.TextOf(1)},
		duplicates.Count{Checks: 300, Texts: duplicates.TextOf(63)}
	want := map[uint64]duplicates.Count{1: one.Add(other), 2: {}, 1 << 40: other}
	check := func(when string) {
		t.Helper()
		inView(t, s, func(v *View) {
			for id, count := range want {
				c, err := v.Duplicates(id)
				must(t, err)
				if newest, err := s.Now().Duplicates(id); err != nil || c != count || newest != c {
					t.Errorf("%s: document %d has %+v, in the newest commit %+v, %v", when, id,
						c, newest, err)
				}
			}
			if c, err := v.Duplicates(3); err != nil || c != (duplicates.Count{}) {
				t.Errorf("%s: a document without duplicates has %+v, %v", when, c, err)
			}
			m, err := v.Meta()
			must(t, err)
			if !slices.Equal(m.Crowded, []uint64{1, 9}) {
				t.Errorf("%s: crowded %d", when, m.Crowded)
			}
		})
	}
	apply(t, s, true, func(b *Batch) {
		b.AddDuplicates(1, other)
		b.AddDuplicates(2, other)
		b.SetCrowded([]uint64{1, 9})
	})
	must(t, s.db.Flush())
	apply(t, s, true,
		func(b *Batch) {
			b.DeleteDuplicates(1)
			b.DeleteDuplicates(2)
			b.AddDuplicates(1<<40, other)
		})
	apply(t, s, true, func(b *Batch) { b.AddDuplicates(1, one) })
	apply(t, s, true, func(b *Batch) { b.AddDuplicates(1, other) })
	check("in memory")
	must(t, s.db.Flush())
	check("after a flush")
	must(t, s.CompactRecords(t.Context()))
	check("after a compaction")
	must(t, s.Close())
	s = openIn(t, fsys)
	check("after a restart")
	must(t, s.Close())
}
