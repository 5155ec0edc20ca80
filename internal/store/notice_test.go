package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/RoaringBitmap/roaring/v2/roaring64"
	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/neardup/neardup/internal/store/block"
)

// TestCheckFilesReadsEveryBlock: a wrong byte in any block of a table is told, with the file, also where no
// iterator reads it.
func TestCheckFilesReadsEveryBlock(t *testing.T) {
	fsys := logWith(t, true, 300)
	s, err := Open("ix", Options{FS: fsys})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.CompactRecords(t.Context()); err != nil {
		t.Fatal(err)
	}
	levels, err := s.db.SSTables()
	if err != nil {
		t.Fatal(err)
	}
	check := func() (faults []Corruption) {
		if err := s.CheckFiles(t.Context(), func(f Corruption) { faults = append(faults, f) }, nil); err != nil {
			t.Fatal(err)
		}
		return faults
	}
	if faults := check(); len(faults) > 0 {
		t.Fatal(faults)
	}
	for _, table := range slices.Concat(levels...) {
		name := fmt.Sprintf("%s.sst", table.BackingSSTNum)
		data := bytesOf(t, fsys, name)
		for at := 0; at < len(data); at += 97 {
			data[at] ^= 0x20
			overwrite(t, fsys, name, data)
			faults := check()
			if len(faults) != 1 || string(faults[0].Key) != name || !errors.Is(faults[0].Err, ErrCorrupt) {
				t.Errorf("%s, byte %d of %d: %v", name, at, len(data), faults)
			}
			data[at] ^= 0x20
		}
		overwrite(t, fsys, name, data)
	}
	// A table that is gone while it is in use.
	name := fmt.Sprintf("%s.sst", slices.Concat(levels...)[0].BackingSSTNum)
	if err := fsys.Remove("ix/" + name); err != nil {
		t.Fatal(err)
	}
	if faults := check(); len(faults) != 1 || string(faults[0].Key) != name {
		t.Errorf("%s is removed: %v", name, faults)
	}
}

// TestBitmapThatIsNotValid can be read, and is refused: its IDs do not ascend.
func TestBitmapThatIsNotValid(t *testing.T) {
	bitmap := roaring64.New()
	for id := range uint64(40) {
		bitmap.Add(3*id + 1)
	}
	data, err := IDsOf(bitmap).Append(nil)
	if err != nil || data[0] != 0x02 {
		t.Fatal(data, err)
	}
	if _, err := block.DecodeIDs(data); err != nil {
		t.Fatal(err)
	}
	last := len(data) - 2 // two bytes an ID
	data[last], data[last-2] = data[last-2], data[last]
	if ids, err := block.DecodeIDs(data); !errors.Is(err, ErrCorrupt) {
		t.Errorf("%d IDs, %v", ids.Len(), err)
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
		if err := s.Close(); err != nil && failed == nil {
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

// surveyed returns what a survey says of entries that are put in the place of some.
func surveyed(t *testing.T, entries map[string][]byte, read func(*View) error) (faults []Corruption) {
	t.Helper()
	db, err := pebble.Open("db", &pebble.Options{FS: vfs.NewMem(), Merger: postingMerger})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for key, value := range entries {
		if err := db.Set([]byte(key), value, nil); err != nil {
			t.Fatal(err)
		}
	}
	it, err := db.NewIter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	v := newView(it, nil)
	if err := read(v.Lenient(t.Context(), func(f Corruption) { faults = append(faults, f) }, nil)); err != nil {
		t.Fatal(err)
	}
	return faults
}

// TestLenientViewOfPlantedDamage: what follows the format entry by entry, and is wrong all the same.
func TestLenientViewOfPlantedDamage(t *testing.T) {
	key := uint64Key(keyKeyspace, 5)
	keys := func(v *View) (err error) {
		for _, err = range v.Keys() {
		}
		return err
	}
	packed := func(v *View) (err error) {
		for _, err = range v.PackedBlocks(1, 0) {
		}
		return err
	}
	directory := func(v *View) error { return v.CheckDirectory(1) }

	fps := []uint64{}
	for i := range uint64(600) {
		fps = append(fps, i*1_000_003+9)
	}
	whole := storeTable(t, 1, fps, nil, 256)
	if len(whole.lasts) < 4 {
		t.Fatal(whole.lasts)
	}
	for _, s := range []func(*View) error{packed, directory} {
		if faults := surveyed(t, whole.values, s); len(faults) > 0 {
			t.Fatal(faults)
		}
	}
	overlap := whole.clone() // the third block holds what is in the second as well
	both, err := block.Append(nil, []uint64{whole.lasts[1] - 1, whole.lasts[2]})
	if err != nil {
		t.Fatal(err)
	}
	overlap.values[whole.blockKey(2)] = both
	fewer := whole.clone() // the directory lists a last block that is not there
	delete(fewer.values, whole.blockKey(len(whole.lasts)-1))

	for what, c := range map[string]struct {
		entries map[string][]byte
		read    func(*View) error
		says    string
	}{
		"a key without documents": {map[string][]byte{string(key): {0x01}}, keys, "no documents"},
		"blocks that overlap":     {overlap.values, packed, "the one before ends"},
		"a directory of too much": {fewer.values, directory, "it lists"},
	} {
		faults := surveyed(t, c.entries, c.read)
		if len(faults) != 1 || !errors.Is(faults[0].Err, ErrCorrupt) || !strings.Contains(faults[0].Err.Error(), c.says) {
			t.Errorf("%s: %v", what, faults)
		}
	}
}

// TestBloomFilters are on the upper levels, where a look-up of an absent key asks them, and not on the lowest
// one, whose filters Pebble does not read.
func TestBloomFilters(t *testing.T) {
	s := openMem(t)
	for round, upper := range []bool{false, true} {
		b := s.NewBatch()
		for id := range uint64(2000) {
			document(b, 2000*uint64(round)+id+1)
		}
		apply(t, s, b, true)
		if err := s.db.Flush(); err != nil {
			t.Fatal(err)
		}
		if !upper {
			if err := s.db.Compact(t.Context(), []byte{0}, []byte{0xff}, false); err != nil {
				t.Fatal(err)
			}
		}
	}
	levels, err := s.db.SSTables(pebble.WithProperties())
	if err != nil {
		t.Fatal(err)
	}
	with := [2]int{}
	for level, tables := range levels {
		for _, table := range tables {
			lowest := level == len(levels)-1
			if lowest == (table.Properties.FilterSize > 0) {
				t.Errorf("level %d: a filter of %d bytes", level, table.Properties.FilterSize)
			}
			if lowest {
				with[1]++
			} else {
				with[0]++
			}
		}
	}
	if with[0] == 0 || with[1] == 0 {
		t.Errorf("tables on upper levels and the lowest: %v", with)
	}
}

// TestMetaErrorIsTheSame of several, each time.
func TestMetaErrorIsTheSame(t *testing.T) {
	s := openMem(t)
	for _, name := range []string{"plan", "analyzer", "counters"} {
		if err := s.db.Delete(metaKey(name), nil); err != nil {
			t.Fatal(err)
		}
	}
	for range 30 {
		if _, err := s.loadMeta(); err == nil || !strings.Contains(err.Error(), `"plan" is missing`) {
			t.Fatal(err)
		}
	}
}
