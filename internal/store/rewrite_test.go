package store

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
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
