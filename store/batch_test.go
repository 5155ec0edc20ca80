package store

import (
	"encoding/binary"
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

// fatal is what *testing.T, *testing.B and *rapid.T have.
type fatal interface {
	Helper()
	Fatal(...any)
}

var must = testenv.Must

// openIn opens the store "ix" of a file system, or makes it.
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

// inView reads a store as it is now.
func inView(t fatal, s *Store, read func(v *View)) {
	t.Helper()
	v, err := s.View()
	must(t, err)
	read(v)
	must(t, v.Close())
}

// apply commits what fill puts into a batch.
func apply(t fatal, s *Store, sync bool, fill func(b *Batch)) {
	t.Helper()
	must(t, commitOf(s, sync, fill))
}

func commitOf(s *Store, sync bool, fill func(b *Batch)) error {
	b := s.NewBatch()
	fill(b)
	finish, err := s.Apply(b, sync)
	if err != nil {
		return err
	}
	return finish()
}

// document fills a batch with everything that one document has.
func document(b *Batch, id uint64) {
	b.SetRecord(id, Record{Fingerprint: id << 32, Key: fmt.Sprint("key ", id)})
	b.SetKeyIDs(id<<8, NewIDs(id))
	b.ChangePosting(id<<32, NewIDs(id), IDs{})
	b.SetEntry(1, id<<16)
	b.SetClock(id, 1000+id)
	b.SetCounters(Counters{NextID: id + 1, Documents: id})
}

// wholeDocuments returns how many documents there are: 1 to n, each with all its parts.
func wholeDocuments(t *testing.T, fsys vfs.FS) (n uint64) {
	t.Helper()
	s := openIn(t, fsys)
	n = s.Counters().NextID - 1
	inView(t, s, func(v *View) {
		for id := uint64(1); id <= n+1; id++ {
			there := id <= n
			_, recorded, err := v.Record(id)
			if err != nil || recorded != there {
				t.Errorf("record of %d of %d: %v, %v", id, n, recorded, err)
			}
			for _, read := range []func() (IDs, error){
				func() (IDs, error) { return v.KeyIDs(id << 8) },
				func() (IDs, error) { return s.KeyIDs(id << 8) },
				func() (IDs, error) { return v.Posting(id << 32) },
			} {
				if ids, err := read(); err != nil || ids.Contains(id) != there {
					t.Errorf("IDs of %d of %d: %v, %v", id, n, slices.Collect(ids.All()), err)
				}
			}
			if found, err := s.Now().ContainsLive(1, id<<16); err != nil || found != there {
				t.Errorf("entry of %d of %d: %v, %v", id, n, found, err)
			}
			if added, err := v.Added(id); err != nil || there && added.Unix() != int64(1000+id) {
				t.Errorf("document %d of %d added %v, %v", id, n, added, err)
			}
		}
	})
	must(t, s.Close())
	return n
}

// TestFailedLog: when the log cannot be made durable whoever waits for that is told, no write
// is taken any more before Pebble comes to know of it, which would end the process, and
// what was there can be read, before and after opening again.
func TestFailedLog(t *testing.T) {
	for what, write := range map[string]func(s *Store) error{
		"a batch that is waited for": func(s *Store) error {
			b := s.NewBatch()
			document(b, 2)
			finish, err := s.Apply(b, true)
			if err != nil {
				return err
			}
			last := s.Last()
			if err = finish(); !errors.Is(last.Wait(), errorfs.ErrInjected) {
				return nil
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
			if broken.Load() && strings.HasSuffix(op.Path, ".log") && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
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
			if err := commitOf(s, sync, func(b *Batch) { document(b, 2) }); !errors.Is(err, fault.ErrFailed) || !errors.Is(err, errorfs.ErrInjected) {
				t.Errorf("%s: Apply after it: %v", what, err)
			}
		}
		if err := s.Sync(); !errors.Is(err, fault.ErrFailed) {
			t.Errorf("%s: Sync after it: %v", what, err)
		}
		if ids, err := s.KeyIDs(1 << 8); err != nil || !ids.Contains(1) {
			t.Errorf("%s: reading after it: %v", what, err)
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

// TestBatchKeepsFirstError: what cannot be encoded comes back from Apply.
func TestBatchKeepsFirstError(t *testing.T) {
	s := openMem(t)
	first := errors.New("first")
	if err := commitOf(s, true, func(b *Batch) {
		b.keep(first)
		b.keep(errors.New("second"))
		b.SetClock(1, 1)
	}); !errors.Is(err, first) {
		t.Errorf("Apply: %v", err)
	}
	must(t, s.NewBatch().Close())
	for _, sync := range []bool{true, false} {
		apply(t, s, sync, func(*Batch) {})
	}
}

// TestScanStaysInItsTable scans the ends of tables that have neighbours.
func TestScanStaysInItsTable(t *testing.T) {
	s := openMem(t)
	tables := []int{0, 1, 2, 255, 256, MaxTables - 1}
	entries := []uint64{0, 1, 1<<32 - 1, 1 << 32, 1<<64 - 2, 1<<64 - 1}
	apply(t, s, true, func(b *Batch) {
		for _, table := range tables {
			for _, e := range entries {
				if table == 0 {
					b.ChangePosting(e, NewIDs(1), IDs{})
				} else {
					b.SetEntry(table, e)
				}
			}
		}
		b.SetRecord(1, Record{Key: "a"})
		b.SetKeyIDs(1, NewIDs(1))
	})
	inView(t, s, func(v *View) {
		for _, table := range append(tables, 3, 254) {
			for _, first := range entries {
				for _, last := range entries {
					var got, want []uint64
					must(t, v.Scan(table, first, last, func(e uint64) bool { got = append(got, e); return true }))
					for _, e := range entries {
						if slices.Contains(tables, table) && e >= first && e <= last {
							want = append(want, e)
						}
					}
					if !slices.Equal(got, want) {
						t.Errorf("table %d, %x to %x: %x, not %x", table, first, last, got, want)
					}
				}
			}
		}
		n := 0
		if err := v.Scan(1, 0, 1<<64-1, func(uint64) bool { n++; return n < 3 }); err != nil || n != 3 {
			t.Errorf("a scan that is stopped at 3 yields %d: %v", n, err)
		}
	})
}

// TestClock looks for the seconds of IDs, which may go backwards, and yields the entries,
// with some forgotten.
func TestClock(t *testing.T) {
	s := openMem(t)
	must(t, s.db.Set(nil, nil, nil)) // a key that no index has, before all others
	inView(t, s, func(v *View) {
		if _, found, err := v.LastSecond(); err != nil || found {
			t.Errorf("a clock without entries has a last one: %v", err)
		}
	})
	check := func(entries [][2]uint64, seconds map[uint64]int64) {
		t.Helper()
		inView(t, s, func(v *View) {
			for range 3 { // in several orders
				for id, want := range seconds {
					if got, err := v.Added(id); err != nil || got.Unix() != want {
						t.Errorf("document %d was added %v, %v", id, got.Unix(), err)
					}
				}
			}
			var got [][2]uint64
			for e, err := range v.Clock(0) {
				must(t, err)
				got = append(got, [2]uint64{e.First, uint64(e.Added().Unix())})
			}
			if !slices.Equal(got, entries) {
				t.Errorf("the clock has %v, not %v", got, entries)
			}
			if got, found, err := v.LastSecond(); err != nil || !found || got != 150 {
				t.Errorf("last second %d, %v, %v", got, found, err)
			}
		})
	}
	entries := [][2]uint64{{1, 100}, {10, 101}, {11, 200}, {500, 150}}
	apply(t, s, true, func(b *Batch) {
		for _, e := range entries {
			b.SetClock(e[0], e[1])
		}
	})
	check(entries, map[uint64]int64{1: 100, 9: 100, 10: 101, 11: 200, 499: 200, 500: 150, 1<<64 - 1: 150})
	apply(t, s, true, func(b *Batch) { b.ForgetClock(10, 500) })
	check([][2]uint64{{1, 100}, {500, 150}}, map[uint64]int64{1: 100, 9: 100, 500: 150})
	apply(t, s, true, func(b *Batch) { b.ForgetClock(0, 2) })
	check([][2]uint64{{500, 150}}, map[uint64]int64{500: 150})

	must(t, s.db.Set(uint64Key(clockKeyspace, 700), binary.BigEndian.AppendUint32(nil, 7), nil))
	inView(t, s, func(v *View) {
		if _, err := v.Added(700); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("a clock entry of 4 bytes: %v", err)
		}
		for e, err := range v.Clock(0) {
			if (e.First == 0) != errors.Is(err, fault.ErrCorrupt) {
				t.Errorf("the entry %d: %v", e.First, err)
			}
		}
	})
}

// Two commits that are applied at once could be in the log in the one order and be the Last
// in the other; who waits for the Last would have the older one only.
func TestAppliesWaitForEachOther(t *testing.T) {
	s := openMem(t)
	s.applying.Lock()
	done := make(chan error)
	go func() { done <- commitOf(s, true, func(b *Batch) { document(b, 1) }) }()
	before := s.Last()
	time.Sleep(50 * time.Millisecond)
	if s.Last() != before {
		t.Error("a commit was begun while another one was applied")
	}
	s.applying.Unlock()
	must(t, <-done)
}

// TestLastNamesWhatIsSeen: whatever a view shows, the Last commit of after it was opened is that of the write,
// or a later one.
func TestLastNamesWhatIsSeen(t *testing.T) {
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
				second, _, err := v.LastSecond()
				if err := errors.Join(err, v.Close()); err != nil {
					t.Error(err)
					return
				}
				if seen := sights[i]; len(seen) == 0 || seen[len(seen)-1].id != second {
					sights[i] = append(seen, sight{second, last})
					changes.Add(1)
				}
			}
		})
	}
	order := map[*Commit]uint64{s.Last(): 0}
	commits := uint64(testenv.Number(4000, 4000, 32_000, 32_000)) // a reader must come in the microsecond between two steps
	for id := uint64(1); id <= commits || changes.Load() < 100 && id < 100_000; id++ {
		b := s.NewBatch()
		b.SetClock(id, id)
		finish, err := s.Apply(b, true)
		must(t, err)
		order[s.Last()] = id
		must(t, finish())
	}
	ending.Store(true)
	wg.Wait()
	seen := slices.Concat(sights...)
	for _, x := range seen {
		if order[x.last] < x.id {
			t.Fatalf("second %d is seen, and the last commit is that of %d", x.id, order[x.last])
		}
	}
	if len(seen) < 100 {
		t.Errorf("%d sights", len(seen))
	}
}

// TestWaitForACommitOfAnother: a commit is durable for everyone who waits for it, even if the caller that
// applied it never does, as after a panic.
func TestWaitForACommitOfAnother(t *testing.T) {
	s := openIn(t, vfs.NewMem())
	b := s.NewBatch()
	b.SetRecord(1, Record{Fingerprint: 1, Key: "a"})
	finish, err := s.Apply(b, true)
	must(t, err)
	must(t, soon(t, "Wait", func() error { return s.Last().Wait() }))
	must(t, s.Last().Wait(), finish(), finish(), s.Close())
}
