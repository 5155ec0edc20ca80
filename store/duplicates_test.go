package store

import (
	"errors"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/internal/duplicates"
	"github.com/neardup/neardup/internal/fault"
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

// TestCountsAreMerged compares the sums of the merger, for counts in any order, with the
// definition.
func TestCountsAreMerged(t *testing.T) {
	counts := []duplicates.Count{
		{Checks: 1}, {Checks: 3, Texts: duplicates.TextOf(5)},
		{Checks: 200, Texts: duplicates.TextOf(5) | duplicates.TextOf(63)},
		{Checks: 1, Texts: duplicates.TextOf(0)},
	}
	var want duplicates.Count
	for _, c := range counts {
		want = duplicates.Count{Checks: want.Checks + c.Checks, Texts: want.Texts | c.Texts}
	}
	for first := range counts {
		m, err := merger.Merge(nil, appendCount(nil, counts[first]))
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range counts {
			switch {
			case i < first:
				err = m.MergeOlder(appendCount(nil, c))
			case i > first:
				err = m.MergeNewer(appendCount(nil, c))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		value, _, err := m.Finish(true)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := decodeCount(value); err != nil || got != want {
			t.Errorf("from number %d on: %+v, %v; want %+v", first, got, err, want)
		}
	}
	for _, value := range []string{"", "\x00", "\x01\x02", "\x01\x00\x00\x00\x00\x00\x00\x00\x00"} {
		m, _ := merger.Merge(nil, appendCount(nil, counts[0]))
		if err := m.MergeNewer([]byte(value)); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%x: %v", value, err)
		}
		if _, err := merger.Merge(nil, []byte(value)); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%x alone: %v", value, err)
		}
	}
}

func FuzzCount(f *testing.F) {
	f.Add([]byte{})
	f.Add(appendCount(nil, duplicates.Count{Checks: 1}))
	f.Add(appendCount(nil, duplicates.Count{Checks: 1 << 40, Texts: duplicates.TextOf(17)}))
	f.Add([]byte{1, 0, 0, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, src []byte) {
		c, err := decodeCount(src)
		if err != nil {
			if !errors.Is(err, fault.ErrCorrupt) || c != (duplicates.Count{}) {
				t.Fatalf("%+v, %v", c, err)
			}
			return
		}
		if again, err := decodeCount(appendCount(nil, c)); err != nil || again != c {
			t.Fatalf("%+v is decoded as %+v, %v", c, again, err)
		}
	})
}
