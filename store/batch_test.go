package store

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/internal/testing/testenv"
)

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
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
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

// TestBatchKeepsFirstError tests that Apply returns the first encoding error of a batch.
func TestBatchKeepsFirstError(t *testing.T) {
	s := openMem(t)
	first := errors.New("first")
	if err := commitOf(s, true, func(b *Batch) {
		b.keep(first)
		b.keep(errors.New("second"))
		b.SetKey(1, 1)
	}); !errors.Is(err, first) {
		t.Errorf("Apply: %v", err)
	}
	must(t, s.NewBatch().Close())
	for _, sync := range []bool{true, false} {
		apply(t, s, sync, func(*Batch) {})
	}
}

// TestLastCoversViews opens views during commits. The commit that Last returns after a view was
// opened is the newest commit that the view shows, or a later one.
func TestLastCoversViews(t *testing.T) {
	s := openMem(t)
	var wg sync.WaitGroup
	var ending atomic.Bool
	var changes atomic.Int64
	type sight struct {
		id   uint64
		last *Commit
	}
	sights := make([][]sight, 3)
	for i := range sights {
		wg.Go(func() {
			for !ending.Load() {
				v, err := s.View()
				last := s.Last() // at once, since a commit that is late is so for a moment
				if err != nil {
					t.Error(err)
					return
				}
				r, _, err := v.Record(1)
				if err := errors.Join(err, v.Close()); err != nil {
					t.Error(err)
					return
				}
				if seen := sights[i]; len(seen) == 0 || seen[len(seen)-1].id != r.Time {
					sights[i] = append(seen, sight{r.Time, last})
					changes.Add(1)
				}
			}
		})
	}
	order := map[*Commit]uint64{s.Last(): 0}
	// a reader must come in the microsecond between two steps
	commits := uint64(testenv.Number(4000, 4000, 32_000, 32_000))
	for id := uint64(1); id <= commits || changes.Load() < 100 && id < 100_000; id++ {
		b := s.NewBatch()
		b.SetRecord(Record{ID: 1, Time: id})
		must(t, s.Apply(b, true))
		order[s.Last()] = id
		must(t, s.Last().Wait())
	}
	ending.Store(true)
	wg.Wait()
	seen := slices.Concat(sights...)
	for _, x := range seen {
		if order[x.last] < x.id {
			t.Fatalf("a view shows commit %d, and Last is commit %d", x.id, order[x.last])
		}
	}
	if len(seen) < 100 {
		t.Errorf("%d sights", len(seen))
	}
}

// TestWaitForACommitOfAnother tests that a commit is durable for every caller that waits for it.
// This must hold even if the caller that applied it never waits, as after a panic.
func TestWaitForACommitOfAnother(t *testing.T) {
	s := openIn(t, vfs.NewMem())
	b := s.NewBatch()
	b.SetRecord(Record{ID: 1, Fingerprint: 1, Key: "a"})
	must(t, s.Apply(b, true))
	commit := s.Last()
	must(t, s.Last().Wait(), commit.Wait(), commit.Wait(), s.Close())
}
