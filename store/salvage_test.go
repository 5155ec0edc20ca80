package store

import (
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/internal/surgeon"
)

// TestSalvageOfSetPostings: without a MANIFEST nothing tells that a file with a posting that was written whole is older than another,
// which changed it: compactions give what is old new numbers.
func TestSalvageOfSetPostings(t *testing.T) {
	fs := vfs.NewMem()
	s := openIn(t, fs)
	write := func(change func(*Batch)) {
		t.Helper()
		apply(t, s, false, change)
		must(t, s.db.Flush())
	}
	change := func(ids ...uint64) func(*Batch) {
		return func(b *Batch) {
			for key, id := range ids {
				if id > 0 {
					b.ChangePosting(uint64(key)<<8, NewIDs(id), IDs{})
				}
			}
		}
	}
	compact := func(first, last uint64) {
		t.Helper()
		must(t, s.db.Compact(t.Context(), tableKey(evenKeyspace, 0, first<<8), tableKey(evenKeyspace, 0, last<<8+1), false))
	}
	write(func(b *Batch) {
		b.SetPosting(0<<8, NewIDs(1), IDs{})
		b.SetPosting(1<<8, NewIDs(2), IDs{})
	})
	compact(0, 1)
	write(change(0, 0, 3, 4))
	compact(2, 3)
	write(change(0, 5, 6)) // over both files, so the next compaction leaves it alone
	write(change(7))
	compact(0, 0)
	must(t, s.Close())
	names, err := fs.List("ix")
	must(t, err)
	for _, name := range names {
		if strings.HasPrefix(name, "MANIFEST-") || name == surgeon.DigestName {
			overwrite(t, fs, name, make([]byte, 1000))
		}
	}
	salvage, err := OpenSalvage(t.Context(), "ix", "work", Options{FS: fs}, func(Corruption) {})
	must(t, err)
	defer salvage.Close()
	for key, want := range [][]uint64{{1, 7}, {2, 5}, {3, 6}, {4}} {
		c, _, err := get(salvage.db, tableKey(evenKeyspace, 0, uint64(key)<<8), decodeChange)
		must(t, err)
		if got := c.added.AppendTo(nil); !slices.Equal(got, want) {
			t.Errorf("the posting of %x has %v, want %v", key, got, want)
		}
	}
}
