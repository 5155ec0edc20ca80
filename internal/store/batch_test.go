package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
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
func wholeDocuments(t *testing.T, s *Store) uint64 {
	t.Helper()
	v, err := s.View()
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	n := s.Counters().NextID - 1
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
		if found, err := s.ContainsLive(1, id<<16); err != nil || found != there {
			t.Errorf("entry of %d of %d: %v, %v", id, n, found, err)
		}
		if added, err := v.Added(id); err != nil || there && added.Unix() != int64(1000+id) {
			t.Errorf("document %d of %d added %v, %v", id, n, added, err)
		}
	}
	return n
}

// TestBatchIsAtomic makes crash clones while batches go in, from the synced bytes
// alone up to most of the others too: documents are there whole or not at all, and
// every one whose commit was waited for is there.
func TestBatchIsAtomic(t *testing.T) {
	for _, percent := range []int{0, 30, 90} {
		mem := vfs.NewCrashableMem()
		s, err := Open("store", Options{Create: &Header{}, FS: mem})
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(1, uint64(percent)))
		durable := uint64(0)
		for id := uint64(1); id <= 40; id++ {
			b := s.NewBatch()
			document(b, id)
			sync := rng.IntN(3) > 0
			finish, err := s.Apply(b, sync)
			if err != nil {
				t.Fatal(err)
			}
			clones := []*vfs.MemFS{crashClone(mem, percent, rng)}
			if err := finish(); err != nil {
				t.Fatal(err)
			}
			least := durable
			if sync {
				durable = id
			}
			clones = append(clones, crashClone(mem, percent, rng))
			if id%20 == 0 {
				if err := s.db.Flush(); err != nil {
					t.Fatal(err)
				}
			}
			for i, clone := range clones {
				if i == 1 {
					least = durable
				}
				after, err := Open("store", Options{FS: clone})
				if err != nil {
					t.Fatalf("%d %% of the unsynced bytes: %v", percent, err)
				}
				if n := wholeDocuments(t, after); n < least || n > id {
					t.Errorf("%d documents are left of %d to %d", n, least, id)
				}
				if err := after.Close(); err != nil {
					t.Error(err)
				}
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func crashClone(mem *vfs.MemFS, percent int, rng *rand.Rand) *vfs.MemFS {
	return mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rng})
}

// TestLastIsDurable: whatever a view shows, the Last commit of after it was opened
// waits until that is on the disk.
func TestLastIsDurable(t *testing.T) {
	mem := vfs.NewCrashableMem()
	slow := errorfs.InjectorFunc(func(op errorfs.Op) error {
		if strings.HasSuffix(op.Path, ".log") && op.Kind == errorfs.OpFileSyncData {
			time.Sleep(2 * time.Millisecond)
		}
		return nil
	})
	s, err := Open("store", Options{Create: &Header{}, FS: errorfs.Wrap(mem, slow)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var wg sync.WaitGroup
	var applying sync.Mutex
	var next atomic.Uint64
	for range 4 {
		wg.Go(func() {
			for range 15 {
				applying.Lock()
				id := next.Add(1)
				b := s.NewBatch()
				document(b, id)
				finish, err := s.Apply(b, true)
				applying.Unlock()
				if err == nil {
					err = finish()
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 60 {
		v, err := s.View()
		if err != nil {
			t.Fatal(err)
		}
		seen := uint64(0)
		for d, err := range v.Records(1) {
			if err != nil {
				t.Fatal(err)
			}
			seen = d.ID
		}
		v.Close()
		if err := s.Last().Wait(); err != nil {
			t.Fatal(err)
		}
		after, err := Open("store", Options{FS: mem.CrashClone(vfs.CrashCloneCfg{})})
		if err != nil {
			t.Fatal(err)
		}
		if n := wholeDocuments(t, after); n < seen {
			t.Errorf("%d documents were seen and waited for, %d are durable", seen, n)
		}
		after.Close()
	}
	wg.Wait()
}

// brokenLog returns a file system on which no log can be written once broken is set.
func brokenLog(mem vfs.FS) (fsys vfs.FS, broken *atomic.Bool) {
	broken = new(atomic.Bool)
	return errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if broken.Load() && strings.HasSuffix(op.Path, ".log") && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			return errorfs.ErrInjected
		}
		return nil
	})), broken
}

// TestFailedSync: when the log cannot be made durable the commit says so, no write
// is taken any more, and what was there can be read, before and after reopening.
func TestFailedSync(t *testing.T) {
	mem := vfs.NewCrashableMem()
	fsys, broken := brokenLog(mem)
	s, err := Open("store", Options{Create: &Header{}, FS: fsys})
	if err != nil {
		t.Fatal(err)
	}
	b := s.NewBatch()
	document(b, 1)
	apply(t, s, b, true)
	broken.Store(true)
	b = s.NewBatch()
	document(b, 2)
	finish, err := s.Apply(b, true)
	if err != nil {
		t.Fatal(err)
	}
	last := s.Last()
	if err := finish(); !errors.Is(err, errorfs.ErrInjected) {
		t.Errorf("finish: %v", err)
	}
	if err := last.Wait(); !errors.Is(err, errorfs.ErrInjected) {
		t.Errorf("Wait: %v", err)
	}
	broken.Store(false) // too late
	for _, sync := range []bool{true, false} {
		b = s.NewBatch()
		document(b, 2)
		if _, err := s.Apply(b, sync); !errors.Is(err, ErrFailed) || !errors.Is(err, errorfs.ErrInjected) {
			t.Errorf("Apply after it: %v", err)
		}
	}
	if err := s.Sync(); !errors.Is(err, ErrFailed) {
		t.Errorf("Sync after it: %v", err)
	}
	if ids, err := s.KeyIDs(1 << 8); err != nil || !ids.Contains(1) {
		t.Errorf("reading after it: %v", err)
	}
	clone := mem.CrashClone(vfs.CrashCloneCfg{})
	if err := s.Close(); !errors.Is(err, ErrFailed) {
		t.Errorf("Close: %v", err)
	}
	after, err := Open("store", Options{FS: clone})
	if err != nil {
		t.Fatal(err)
	}
	defer after.Close()
	if n := wholeDocuments(t, after); n != 1 {
		t.Errorf("%d documents are left", n)
	}
}

// TestSyncOfFailedLog: what was written without waiting is found out by Sync, with an
// error and not with the end of the process.
func TestSyncOfFailedLog(t *testing.T) {
	fsys, broken := brokenLog(vfs.NewMem())
	s, err := Open("store", Options{Create: &Header{}, FS: fsys})
	if err != nil {
		t.Fatal(err)
	}
	b := s.NewBatch()
	document(b, 1)
	apply(t, s, b, false)
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	broken.Store(true)
	if err := s.Sync(); !errors.Is(err, errorfs.ErrInjected) {
		t.Errorf("Sync: %v", err)
	}
	if err := s.Sync(); !errors.Is(err, ErrFailed) {
		t.Errorf("Sync after it: %v", err)
	}
	if err := s.Close(); !errors.Is(err, ErrFailed) {
		t.Errorf("Close: %v", err)
	}
}

// TestFullDiskWithoutSync: nobody waits for the log, and it fails. The writes after
// that are refused before Pebble comes to know of it, which would end the process.
func TestFullDiskWithoutSync(t *testing.T) {
	fsys, broken := brokenLog(vfs.NewMem())
	s, err := Open("store", Options{Create: &Header{}, FS: fsys})
	if err != nil {
		t.Fatal(err)
	}
	for id := uint64(1); id < 1_000_000; id++ {
		if id == 100 {
			broken.Store(true)
		}
		b := s.NewBatch()
		document(b, id)
		finish, err := s.Apply(b, false)
		if err == nil {
			err = finish()
		}
		if errors.Is(err, ErrFailed) && errors.Is(err, errorfs.ErrInjected) && id >= 100 {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if id > 100 {
			time.Sleep(10 * time.Microsecond)
		}
	}
	if err := s.writable(); !errors.Is(err, ErrFailed) {
		t.Fatalf("a million writes to a log that fails: %v", err)
	}
	if ids, err := s.KeyIDs(1 << 8); err != nil || !ids.Contains(1) {
		t.Errorf("reading after it: %v", err)
	}
	if err := s.Close(); !errors.Is(err, ErrFailed) {
		t.Errorf("Close: %v", err)
	}
}

// TestBatchKeepsFirstError: what cannot be encoded comes back from Apply.
func TestBatchKeepsFirstError(t *testing.T) {
	s := openMem(t)
	b := s.NewBatch()
	first := errors.New("first")
	b.keep(first)
	b.keep(errors.New("second"))
	b.SetClock(1, 1)
	if _, err := s.Apply(b, true); !errors.Is(err, first) {
		t.Errorf("Apply: %v", err)
	}
	if err := s.NewBatch().Close(); err != nil {
		t.Error(err)
	}
	b = s.NewBatch()
	if before := b.batch.Len(); before > 100 {
		t.Errorf("an empty batch has %d bytes", before)
	}
	apply(t, s, b, true)
	apply(t, s, s.NewBatch(), false)
}

// TestScanStaysInItsTable scans the ends of tables that have neighbours.
func TestScanStaysInItsTable(t *testing.T) {
	s := openMem(t)
	b := s.NewBatch()
	tables := []int{0, 1, 2, 255, 256, MaxTables - 1}
	entries := []uint64{0, 1, 1<<32 - 1, 1 << 32, 1<<64 - 2, 1<<64 - 1}
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
	apply(t, s, b, true)
	v, err := s.View()
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	for _, table := range append(tables, 3, 254) {
		for _, first := range entries {
			for _, last := range entries {
				var got, want []uint64
				err := v.Scan(table, first, last, func(e uint64) bool { got = append(got, e); return true })
				if err != nil {
					t.Fatal(err)
				}
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
}

// TestClock looks for the seconds of IDs, which may go backwards, and yields the entries,
// with some forgotten.
func TestClock(t *testing.T) {
	s := openMem(t)
	entries := [][2]uint64{{1, 100}, {10, 101}, {11, 200}, {500, 150}}
	b := s.NewBatch()
	for _, e := range entries {
		b.SetClock(e[0], e[1])
	}
	apply(t, s, b, true)
	check := func(seconds map[uint64]int64) {
		t.Helper()
		v, err := s.View()
		if err != nil {
			t.Fatal(err)
		}
		defer v.Close()
		for id, want := range seconds {
			if got, err := v.Added(id); err != nil || got.Unix() != want {
				t.Errorf("document %d was added %v, %v", id, got.Unix(), err)
			}
		}
		var got [][2]uint64
		for e, err := range v.Clock() {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, [2]uint64{e.First, uint64(e.Added().Unix())})
		}
		if !slices.Equal(got, entries) {
			t.Errorf("the clock has %v, not %v", got, entries)
		}
		if got, found, err := v.LastSecond(); err != nil || !found || got != 150 {
			t.Errorf("last second %d, %v, %v", got, found, err)
		}
	}
	check(map[uint64]int64{1: 100, 9: 100, 10: 101, 11: 200, 499: 200, 500: 150, 1<<64 - 1: 150})
	b = s.NewBatch()
	b.ForgetClock(10, 500)
	apply(t, s, b, true)
	entries = [][2]uint64{{1, 100}, {500, 150}}
	check(map[uint64]int64{1: 100, 9: 100, 500: 150})
	b = s.NewBatch()
	b.ForgetClock(0, 2)
	apply(t, s, b, true)
	entries = entries[1:]
	check(map[uint64]int64{500: 150})
	key := uint64Key(clockKeyspace, 700)
	if err := s.db.Set(key, binary.BigEndian.AppendUint32(nil, 7), nil); err != nil {
		t.Fatal(err)
	}
	v, err := s.View()
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	if _, err := v.Added(700); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a clock entry of 4 bytes: %v", err)
	}
	for e, err := range v.Clock() {
		if (e.First == 0) != errors.Is(err, ErrCorrupt) {
			t.Errorf("the entry %d: %v", e.First, err)
		}
	}
}

// Two commits that are applied at once could be in the log in the one order and be the Last
// in the other; who waits for the Last would have the older one only.
func TestAppliesWaitForEachOther(t *testing.T) {
	s, err := Open("store", Options{Create: &Header{}, FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.applying.Lock()
	done := make(chan error)
	go func() {
		b := s.NewBatch()
		document(b, 1)
		finish, err := s.Apply(b, true)
		if err == nil {
			err = finish()
		}
		done <- err
	}()
	before := s.Last()
	time.Sleep(50 * time.Millisecond)
	if s.Last() != before {
		t.Error("a commit was begun while another one was applied")
	}
	s.applying.Unlock()
	if err := <-done; err != nil {
		t.Error(err)
	}
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
				if err != nil {
					t.Error(err)
					return
				}
				second, _, err := v.LastSecond()
				last := s.Last()
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
	for id := uint64(1); id <= 4000 || changes.Load() < 100 && id < 100_000; id++ {
		b := s.NewBatch()
		b.SetClock(id, id)
		finish, err := s.Apply(b, true)
		if err != nil {
			t.Fatal(err)
		}
		order[s.Last()] = id
		if err := finish(); err != nil {
			t.Fatal(err)
		}
	}
	ending.Store(true)
	wg.Wait()
	seen := 0
	for _, of := range sights {
		for _, x := range of {
			if order[x.last] < x.id {
				t.Fatalf("second %d is seen, and the last commit is that of %d", x.id, order[x.last])
			}
			seen++
		}
	}
	if seen < 100 {
		t.Errorf("%d sights", seen)
	}
}
