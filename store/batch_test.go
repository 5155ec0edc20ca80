package store

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/neardup/neardup/internal/fault"
	"github.com/neardup/neardup/internal/testing/crashfs"
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
	s, err := Open("ix", Options{Create: &Header{Plan: "plan"}, FS: fsys})
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
	b.SetRecord(id, documentOf(id))
	b.SetKey(id<<8, id)
	b.SetLive(id<<32, id)
	b.SetEntry(1, id<<16)
	b.SetCounters(Counters{NextID: id + 1, Documents: id})
}

// documentOf returns the record that document writes.
func documentOf(id uint64) Record {
	return Record{Fingerprint: id << 32, Time: 1000 + id, Digest: id, Key: fmt.Sprint("key ", id)}
}

// wholeDocuments returns the number of documents in a store. It checks that the documents are 1 to
// n, and that each has its record, its key and its entries.
func wholeDocuments(t *testing.T, fsys vfs.FS) (n uint64) {
	t.Helper()
	s := openIn(t, fsys)
	n = s.Counters().NextID - 1
	inView(t, s, func(v *View) {
		for id := uint64(1); id <= n+1; id++ {
			exists := id <= n
			for _, from := range []interface {
				Record(uint64) (Record, bool, error)
			}{s, v} {
				r, found, err := from.Record(id)
				if err != nil || found != exists || found && r != documentOf(id) {
					t.Errorf("%T: record of %d of %d: %+v, %t, %v", from, id, n, r, found, err)
				}
			}
			var want []uint64
			entries := 0
			if exists {
				want, entries = []uint64{id}, 1
			}
			if ids, err := v.AppendKey(nil, id<<8); err != nil || !slices.Equal(ids, want) {
				t.Errorf("key of %d of %d: IDs %v, %v", id, n, ids, err)
			}
			if ids, err := v.AppendLive(nil, id<<32, 0, 10); err != nil ||
				!slices.Equal(ids, want) {
				t.Errorf("live entry of %d of %d: IDs %v, %v", id, n, ids, err)
			}
			for table, fp := range []uint64{id << 32, id << 16} {
				found := 0
				if err := v.Scan(table, fp, fp, func(uint64) bool {
					found++
					return true
				}); err != nil || found != entries {
					t.Errorf("entry of %d of %d in table %d: %d times, %v", id, n,
						table, found, err)
				}
			}
		}
	})
	must(t, s.Close())
	return n
}

// TestFailedLog tests a log that cannot be synced. Every caller that waits for it must get an
// error. The store must refuse writes before Pebble notices the error, since Pebble would end the
// process. Stored data must be readable, also after the store is opened again.
func TestFailedLog(t *testing.T) {
	for what, write := range map[string]func(s *Store) error{
		"a batch that is waited for": func(s *Store) error {
			b := s.NewBatch()
			document(b, 2)
			if err := s.Apply(b, true); err != nil {
				return err
			}
			err := s.Last().Wait()
			if again := s.Last().Wait(); again != err {
				return fmt.Errorf("Wait returns %v, then %v", err, again)
			}
			return err
		},
		"Sync": func(s *Store) error { return s.Sync() },
		"batches that nobody waits for": func(s *Store) error {
			for id := uint64(2); id < 1_000_000; id++ {
				if err := commitOf(s, false, func(b *Batch) { document(b, id) }); err != nil {
					return err
				}
				time.Sleep(10 * time.Microsecond)
			}
			return nil
		},
	} {
		mem := crashfs.New()
		var broken atomic.Bool
		s := openIn(t, errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if broken.Load() && strings.HasSuffix(op.Path, ".log") &&
				op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
				return errorfs.ErrInjected
			}
			return nil
		})))
		apply(t, s, false, func(b *Batch) { document(b, 1) })
		must(t, s.Sync())
		broken.Store(true)
		if err := write(s); !errors.Is(err, errorfs.ErrInjected) {
			t.Errorf("%s: %v", what, err)
		}
		broken.Store(false) // too late
		for _, sync := range []bool{true, false} {
			if err := commitOf(s, sync, func(b *Batch) { document(b, 2) }); !errors.Is(err,
				fault.ErrFailed) || !errors.Is(err, errorfs.ErrInjected) {
				t.Errorf("%s: Apply after it: %v", what, err)
			}
		}
		if err := s.Sync(); !errors.Is(err, fault.ErrFailed) {
			t.Errorf("%s: Sync after it: %v", what, err)
		}
		if r, found, err := s.Record(1); err != nil || !found || r != documentOf(1) {
			t.Errorf("%s: Record after it: %+v, %t, %v", what, r, found, err)
		}
		crashed := mem.CrashClone(vfs.CrashCloneCfg{})
		if err := s.Close(); !errors.Is(err, fault.ErrFailed) {
			t.Errorf("%s: Close: %v", what, err)
		}
		if n := wholeDocuments(t, crashed); n != 1 {
			t.Errorf("%s: %d documents are left", what, n)
		}
	}
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
		b.SetRecord(1, Record{Time: id})
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
	b.SetRecord(1, Record{Fingerprint: 1, Key: "a"})
	must(t, s.Apply(b, true))
	commit := s.Last()
	must(t, s.Last().Wait(), commit.Wait(), commit.Wait(), s.Close())
}
