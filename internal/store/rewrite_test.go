package store

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// TestRewriteDeletesRecords: of the records on Pebble's lowest level those go that
// are deleted, every one, before and after the store is opened again.
func TestRewriteDeletesRecords(t *testing.T) {
	ctx, fsys := context.Background(), vfs.NewMem()
	s, err := Open("store", Options{Create: &Header{Plan: "plan"}, FS: fsys})
	if err != nil {
		t.Fatal(err)
	}
	b := s.NewBatch()
	want := []uint64{1, 2, 5}
	for _, id := range []uint64{1, 2, 3, 4, 5} {
		document(b, id)
	}
	apply(t, s, b, true)
	if err := s.CompactRecords(ctx); err != nil {
		t.Fatal(err)
	}

	r, err := s.NewRewrite(1)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []uint64{3, 4} {
		if err := r.DeleteRecord(id); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.AddRecord(6, Record{Key: "new"}); err != nil {
		t.Fatal(err)
	}
	want = append(want, 6)
	w := r.Table(0)
	if err := errors.Join(w.AddPosting(7, NewIDs(1)), w.Close(), r.Commit(ctx, "plan", Counters{NextID: 7}), r.Close()); err != nil {
		t.Fatal(err)
	}
	for _, when := range []string{"at once", "opened again"} {
		if got := recordIDs(t, s); !slices.Equal(got, want) {
			t.Errorf("%s: records %v, want %v", when, got, want)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if s, err = Open("store", Options{FS: fsys}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// recordIDs returns the documents that have a record, which both ways to look one up
// must agree on.
func recordIDs(t *testing.T, s *Store) (ids []uint64) {
	t.Helper()
	v, err := s.View()
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	for r, err := range v.Records(1) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, r.ID)
	}
	for id := range uint64(8) {
		if _, found, err := s.Record(id); err != nil || found != slices.Contains(ids, id) {
			t.Errorf("record %d: %t, %v, and the scan says %v", id, found, err, ids)
		}
	}
	return ids
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
		if err != nil {
			t.Fatal(err)
		}
		for id := uint64(1); id <= 30; id++ {
			b := s.NewBatch()
			b.SetRecord(id, Record{Key: strings.Repeat("x", 1000)}) // several blocks before the tables
			b.SetEntry(1, id)
			apply(t, s, b, true)
		}
		if err := s.db.Compact(t.Context(), []byte{0}, []byte{0xff}, false); err != nil { // one file over all keyspaces
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		names, err := mem.List("ix")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			old["ix/"+name] = strings.HasSuffix(name, ".sst")
		}
		if s, err = Open("ix", Options{FS: fsys}); err != nil { // its cache is empty
			t.Fatal(err)
		}
		r, err := s.NewRewrite(1)
		if err != nil {
			t.Fatal(err)
		}
		w := r.Table(0)
		if err := errors.Join(w.AddPosting(7, NewIDs(1)), w.Close()); err != nil {
			t.Fatal(err)
		}
		reads.Store(-1)
		failed := r.Commit(context.Background(), "plan", Counters{NextID: 31, Documents: 30, Bare: 0})
		met := reads.Swap(-1<<40) >= fail
		r.Close()
		// The read that fails can also be one of Pebble's own compaction after the commit: Close tells of it then.
		if err := s.Close(); err != nil && failed == nil && !met {
			t.Fatal(err)
		}
		if s, err = Open("ix", Options{FS: mem}); err != nil {
			t.Fatalf("read %d: %v", fail, err)
		}
		if n := records(t, s); n != 30 {
			t.Errorf("read %d (%v): %d records of 30", fail, failed, n)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if !met {
			t.Logf("%d reads", fail)
			if fail == 0 {
				t.Error("nothing is read")
			}
			return
		}
	}
}
