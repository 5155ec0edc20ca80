package store

import (
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/neardup/neardup/internal/testing/crashfs"
	"github.com/neardup/neardup/internal/testing/testenv"
)

func TestMain(m *testing.M) {
	testenv.MostlyWait()
	m.Run()
}

// fatal is the common part of *testing.T, *testing.B and *rapid.T.
type fatal interface {
	Helper()
	Fatal(...any)
}

var must = testenv.Must

// openIn opens or creates the store "ix" of a file system.
func openIn(t fatal, fsys vfs.FS) *Store {
	t.Helper()
	s, err := Open("ix", Options{Create: &Meta{Plan: "plan"}, FS: fsys})
	must(t, err)
	return s
}

func openMem(t testing.TB) *Store {
	t.Helper()
	s := openIn(t, vfs.NewMem())
	t.Cleanup(func() { must(t, s.Close()) })
	return s
}

// inView calls read with a view of the present state.
func inView(t fatal, s *Store, read func(v *View)) {
	t.Helper()
	v, err := s.View()
	must(t, err)
	read(v)
	must(t, v.Close())
}

// apply commits a batch that fill fills.
func apply(t fatal, s *Store, sync bool, fill func(b *Batch)) {
	t.Helper()
	must(t, commitOf(s, sync, fill))
}

func commitOf(s *Store, sync bool, fill func(b *Batch)) error {
	b := s.NewBatch()
	fill(b)
	if err := s.Apply(b, sync); err != nil || !sync {
		return err
	}
	return s.Last().Wait()
}

// document fills a batch with the record, the key and the entries of a document.
func document(b *Batch, id uint64) {
	b.SetRecord(documentOf(id))
	b.SetKey(id<<8, id)
	b.SetLive(id<<32, id)
	b.SetEntry(1, id<<16)
	b.SetCounters(Counters{NextID: id + 1, Documents: id})
}

// documentOf returns the record that document writes.
func documentOf(id uint64) Record {
	return Record{ID: id, Fingerprint: id << 32, Time: 1000 + id, Digest: id,
		Key: fmt.Sprint("key ", id)}
}

// fillUp adds documents with keys of 30 kB until an error occurs. It returns the number of durable
// documents and the largest possible number.
func fillUp(s *Store, from, end uint64) (durable, applied uint64, err error) {
	durable = from - 1
	for id := from; id < end; id++ {
		sync := id%16 == 0 || id == end-1
		if err := commitOf(s, sync, func(b *Batch) {
			document(b, id)
			b.SetRecord(Record{ID: id, Key: strings.Repeat("x", 30_000)})
		}); err != nil {
			return durable, id, err
		}
		if sync {
			durable = id
		}
	}
	return durable, end - 1, nil
}

// records counts the documents from 1 on that have a record.
func records(t fatal, s *Store) (n uint64) {
	t.Helper()
	inView(t, s, func(v *View) {
		for r, err := range v.Records(1) {
			if n++; err != nil || r.ID != n {
				t.Fatal("record ", r.ID, " instead of ", n, err)
			}
		}
	})
	return n
}

// recordsAfter opens the store, and counts its records.
func recordsAfter(t fatal, fsys vfs.FS) uint64 {
	t.Helper()
	s := openIn(t, fsys)
	n := records(t, s)
	must(t, s.Close())
	return n
}

// crash returns the files that a crash would leave.
func crash(fsys *crashfs.FS) *crashfs.FS { return fsys.CrashClone(vfs.CrashCloneCfg{}) }

// breakable is a file system of which some operations fail while it is broken.
type breakable struct {
	vfs.FS
	broken atomic.Bool
	hits   atomic.Int64
}

func newBreakable(fsys vfs.FS, fails func(errorfs.Op) bool) *breakable {
	b := &breakable{}
	b.FS = errorfs.Wrap(fsys, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if b.broken.Load() && fails(op) {
			b.hits.Add(1)
			return syscall.ENOSPC
		}
		return nil
	}))
	return b
}

// isTableRead reports whether an operation reads a table file.
func isTableRead(op errorfs.Op) bool {
	return op.Kind == errorfs.OpFileReadAt && strings.HasSuffix(op.Path, ".sst")
}
