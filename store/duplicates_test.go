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
	one, other := duplicates.Count{Checks: 1, Texts: duplicates.TextOf(1)}, duplicates.Count{Checks: 300, Texts: duplicates.TextOf(63)}
	want := []DuplicatesOf{{1, one.Add(other)}, {1 << 40, other}}
	check := func(when string) {
		t.Helper()
		inView(t, s, func(v *View) {
			var got []DuplicatesOf
			for d, err := range v.AllDuplicates() {
				must(t, err)
				got = append(got, d)
				c, err := v.Duplicates(d.ID)
				must(t, err)
				if newest, err := s.Now().Duplicates(d.ID); err != nil || c != d.Count || newest != c {
					t.Errorf("%s: document %d has %+v, in a scan %+v, in the newest commit %+v, %v", when, d.ID, c, d.Count, newest, err)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: %+v, want %+v", when, got, want)
			}
			if c, err := v.Duplicates(3); err != nil || c != (duplicates.Count{}) {
				t.Errorf("%s: a document without duplicates has %+v, %v", when, c, err)
			}
			for u, err := range v.Unknown(1) {
				t.Errorf("%s: unknown key %x, %v", when, u.Key, err)
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
	apply(t, s, true, func(b *Batch) { b.DeleteDuplicates(1); b.DeleteDuplicates(2); b.AddDuplicates(1<<40, other) })
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
