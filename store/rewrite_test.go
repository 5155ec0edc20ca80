package store

import (
	"context"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// rewrite replaces the tables by one that fill writes.
func rewrite(t fatal, s *Store, counters Counters, fill func(r *Rewrite, w *TableWriter)) {
	t.Helper()
	r, err := s.NewRewrite(1)
	must(t, err)
	w := r.Table(0)
	fill(r, w)
	must(t, w.Close(), r.Commit(context.Background(), "plan", counters), r.Close())
}

// TestRewriteDeletesRecords tests that all deleted records on Pebble's lowest level are dropped.
// It checks before and after the store is opened again.
func TestRewriteDeletesRecords(t *testing.T) {
	fsys := vfs.NewMem()
	s := openIn(t, fsys)
	apply(t, s, true, func(b *Batch) {
		for id := uint64(1); id <= 5; id++ {
			document(b, id)
		}
	})
	must(t, s.CompactRecords(t.Context()))
	added := Record{ID: 6, Key: "new"}
	rewrite(t, s, Counters{NextID: 7}, func(r *Rewrite, w *TableWriter) {
		must(t, r.DeleteRecord(3), r.DeleteRecord(4), r.AddRecord(added),
			w.AddPosting(7, NewIDs(1)))
	})
	want := []Record{documentOf(1), documentOf(2), documentOf(5), added}
	for range 2 {
		inView(t, s, func(v *View) {
			if got, err := collect(v.Records(1)); err != nil || !slices.Equal(got, want) {
				t.Errorf("records %v, want %v, %v", got, want, err)
			}
		})
		for id := range uint64(8) {
			_, found, err := s.Now().Record(id)
			if must(t, err); found != slices.ContainsFunc(want,
				func(r Record) bool { return r.ID == id }) {
				t.Errorf("record %d: %t", id, found)
			}
		}
		must(t, s.Close())
		s = openIn(t, fsys)
	}
	must(t, s.Close())
}

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
		rewrite(t, s, Counters{NextID: 2*round + 3}, func(r *Rewrite, w *TableWriter) {
			id := 2*round + 2
			must(t, r.AddRecord(documentOf(id)), w.AddPosting(7, NewIDs(id)))
		})
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
