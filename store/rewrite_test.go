package store

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
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

// TestRewriteDeletesRecords: of the records on Pebble's lowest level those go that
// are deleted, every one, before and after the store is opened again.
func TestRewriteDeletesRecords(t *testing.T) {
	fsys := vfs.NewMem()
	s := openIn(t, fsys)
	apply(t, s, true, func(b *Batch) {
		for id := uint64(1); id <= 5; id++ {
			document(b, id)
		}
	})
	must(t, s.CompactRecords(t.Context()))
	rewrite(t, s, Counters{NextID: 7}, func(r *Rewrite, w *TableWriter) {
		must(t, r.DeleteRecord(3), r.DeleteRecord(4), r.AddRecord(6, Record{Key: "new"}), w.AddPosting(7, NewIDs(1)))
	})
	want := []uint64{1, 2, 5, 6}
	for _, when := range []string{"at once", "opened again"} {
		var got []uint64
		inView(t, s, func(v *View) {
			for r, err := range v.Records(1) {
				must(t, err)
				got = append(got, r.ID)
			}
		})
		if !slices.Equal(got, want) {
			t.Errorf("%s: records %v, want %v", when, got, want)
		}
		for id := range uint64(8) {
			if _, found, err := s.Record(id); err != nil || found != slices.Contains(want, id) {
				t.Errorf("%s: record %d: %t, %v", when, id, found, err)
			}
		}
		must(t, s.Close())
		s = openIn(t, fsys)
	}
	must(t, s.Close())
}

// TestSmallFilesAreMerged: each flush and each load leaves a file of records. CompactRecords merges these files.
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
	const rounds = fewSmallFiles // twice as many files, of which Pebble by itself merges one or another
	for round := range uint64(rounds) {
		apply(t, s, true, func(b *Batch) { document(b, 2*round+1) })
		must(t, s.db.Flush())
		rewrite(t, s, Counters{NextID: 2*round + 3}, func(r *Rewrite, w *TableWriter) {
			id := 2*round + 2
			must(t, r.AddRecord(id, documentOf(id)), w.AddPosting(7, NewIDs(id)))
		})
	}
	if n := files(); n[documentKeyspace] <= fewSmallFiles {
		t.Fatalf("files by keyspace: %v", n)
	}
	must(t, s.CompactRecords(t.Context()))
	if n := files(); n[documentKeyspace] != 1 {
		t.Errorf("files by keyspace: %v", n)
	}
	inView(t, s, func(v *View) {
		for id := uint64(1); id <= 2*rounds; id++ {
			if r, found, err := v.Record(id); err != nil || !found || r != documentOf(id) {
				t.Errorf("record of document %d: %+v, %t, %v", id, r, found, err)
			}
		}
	})
	if n := records(t, s); n != 2*rounds {
		t.Errorf("%d records", n)
	}
}

// TestUnreadableEdgeOfTheTables: a file of which only the middle is replaced is read at its edges first. What
// cannot be read there ends the replacement, and nothing is lost.
func TestUnreadableEdgeOfTheTables(t *testing.T) {
	for fail := int64(0); ; fail++ {
		mem := vfs.NewMem()
		var reads atomic.Int64
		reads.Store(-1 << 40)
		old := map[string]bool{} // the tables before
		fsys := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind == errorfs.OpFileReadAt && old[op.Path] && reads.Add(1) == fail {
				return syscall.EIO
			}
			return nil
		}))
		s, err := Open("ix", Options{FS: fsys, Create: &Header{Plan: "plan"}, CacheBytes: 1})
		must(t, err)
		for id := uint64(1); id <= 30; id++ {
			apply(t, s, true, func(b *Batch) {
				b.SetRecord(id, Record{Key: strings.Repeat("x", 1000)}) // several blocks before the tables
				b.SetEntry(1, id)
			})
		}
		// One file over all keyspaces.
		must(t, s.db.Compact(t.Context(), []byte{0}, []byte{0xff}, false), s.Close())
		names, err := mem.List("ix")
		must(t, err)
		for _, name := range names {
			old["ix/"+name] = strings.HasSuffix(name, ".sst")
		}
		s = openIn(t, fsys) // its cache is empty
		r, err := s.NewRewrite(1)
		must(t, err)
		w := r.Table(0)
		must(t, w.AddPosting(7, NewIDs(1)), w.Close())
		reads.Store(-1)
		failed := r.Commit(context.Background(), "plan", Counters{NextID: 31, Documents: 30, Bare: 0})
		met := reads.Swap(-1<<40) >= fail
		r.Close()
		// The read that fails can also be one of Pebble's own compaction after the commit: Close tells of it then.
		if err := s.Close(); err != nil && failed == nil && !met {
			t.Fatal(err)
		}
		s = openIn(t, mem)
		if n := records(t, s); n != 30 {
			t.Errorf("read %d (%v): %d records of 30", fail, failed, n)
		}
		must(t, s.Close())
		if !met {
			t.Logf("%d reads", fail)
			if fail == 0 {
				t.Error("nothing is read")
			}
			return
		}
	}
}
