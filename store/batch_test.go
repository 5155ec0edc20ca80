package store

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

func openMem(t testing.TB) *Store {
	t.Helper()
	s, err := Open("store", Options{Create: &Header{}, FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func apply(t testing.TB, s *Store, b *Batch, sync bool) {
	t.Helper()
	finish, err := s.Apply(b, sync)
	if err != nil {
		t.Fatal(err)
	}
	if err := finish(); err != nil {
		t.Fatal(err)
	}
}
