package store

import (
	"slices"
	"testing"
)

// TestSmallFilesAreMerged tests that CompactRecords merges the files of records that flushes and
// loads leave.
func TestSmallFilesAreMerged(t *testing.T) {
	s := openMem(t)
	files := func() map[byte]int {
		levels, err := s.db.SSTables()
		must(t, err)
		files := map[byte]int{}
		for _, table := range slices.Concat(levels...) {
			files[table.Smallest.UserKey[0]]++
		}
		return files
	}
	// Each round leaves two files. Pebble merges some of them by itself.
	round := uint64(0)
	for ; files()[documentKeyspace] <= fewSmallFiles && round < 10*fewSmallFiles; round++ {
		apply(t, s, true, func(b *Batch) { document(b, 2*round+1) })
		must(t, s.db.Flush())
		r, err := s.NewRewrite(1)
		must(t, err)
		id, w := 2*round+2, r.Table(0)
		must(t, r.AddRecord(documentOf(id)), w.AddPosting(7, NewIDs(id)), w.Close(),
			r.Commit(t.Context(), "plan", Counters{NextID: id + 1}), r.Close())
	}
	if n := files(); n[documentKeyspace] <= fewSmallFiles {
		t.Fatalf("files by keyspace: %v", n)
	}
	must(t, s.CompactRecords(t.Context()))
	if n := files(); n[documentKeyspace] != 1 {
		t.Errorf("files by keyspace: %v", n)
	}
	if n := records(t, s); n != 2*round {
		t.Errorf("%d records", n)
	}
	for id := uint64(1); id <= 2*round; id++ {
		if r, _, err := s.Now().Record(id); err != nil || r != documentOf(id) {
			t.Errorf("record of document %d: %+v, %v", id, r, err)
		}
	}
}
