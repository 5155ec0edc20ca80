package compaction_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/index/plan"
	"github.com/neardup/neardup/internal/store"
	"github.com/neardup/neardup/internal/testseed"
)

// repaired repairs an index and opens the result, which Verify finds whole.
func (f *flipped) repaired(t *testing.T, fsys vfs.FS) (compaction.RepairReport, map[uint64]index.Document, error) {
	t.Helper()
	before := filesOf(t, fsys, "ix")
	opts := compaction.RepairOptions{Options: compaction.Options{FS: fsys, FilterBytes: f.opts.FilterBytes, MemoryBytes: 1 << 20}}
	report, err := compaction.Repair(context.Background(), "ix", opts)
	if errors.Is(err, compaction.ErrNotRepaired) && strings.Contains(err.Error(), "plan cannot be read") {
		if opts.Plan, err = plan.Parse(f.plan); err != nil {
			t.Fatal(err)
		}
		report, err = compaction.Repair(context.Background(), "ix", opts)
	}
	names, _ := fsys.List("")
	if err != nil {
		if after := filesOf(t, fsys, "ix"); !maps.EqualFunc(after, before, slices.Equal) {
			t.Errorf("a repair that failed (%v) has changed the index", err)
		}
		if len(names) != 1 {
			t.Errorf("a repair that failed (%v) leaves %v", err, names)
		}
		return report, nil, err
	}
	if report.Index != "ix" || report.Kept != "ix.damaged" || len(names) != 2 {
		t.Errorf("%+v; there is %v", report, names)
	}
	delete(before, "LOCK")
	after := filesOf(t, fsys, "ix.damaged")
	delete(after, "LOCK")
	if !maps.EqualFunc(after, before, slices.Equal) {
		t.Error("the damaged index was changed")
	}
	reopen := f.opts
	reopen.FS = fsys
	x, err := index.Open("ix", &reopen)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	docs := map[uint64]index.Document{}
	for d, err := range x.Documents(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		docs[d.ID] = d
	}
	for p := range x.Verify(t.Context()) {
		t.Error(p)
	}
	if uint64(len(docs)) != report.Documents || x.Stats().NextID < 1 {
		t.Errorf("%d documents, %+v", len(docs), report)
	}
	if err := x.Add(t.Context(), index.Document{Key: "new", Fingerprint: 1}); err != nil {
		t.Error(err)
	}
	return report, docs, nil
}

// lost counts the documents that are not as they were. None may be there that was not.
func (f *flipped) lost(t *testing.T, got map[uint64]index.Document) (lost int) {
	t.Helper()
	want := map[uint64]index.Document{}
	for _, d := range f.docs {
		want[d.ID] = d
	}
	for _, d := range f.docs {
		now := got[d.ID]
		if now.Added = d.Added; now != d { // the clock is in one block, too
			lost++
		}
	}
	for id, d := range got {
		if _, was := want[id]; !was {
			t.Errorf("document %+v was not there", d)
		}
	}
	return lost
}

// TestRepairOfWholeIndex changes nothing that can be seen.
func TestRepairOfWholeIndex(t *testing.T) {
	f := newFlipped(t, rand.New(rand.NewPCG(testseed.Of(t), 2)))
	report, docs, err := f.repaired(t, f.with(t, nil))
	if err != nil {
		t.Fatal(err)
	}
	if n := f.lost(t, docs); n > 0 || report.Faults > 0 || report.DocumentsBefore != report.Documents || report.Dropped+report.RecordsLost+report.Replaced > 0 {
		t.Errorf("%d documents are not what they were: %+v", n, report)
	}
}

// TestRepairOfFlippedBytes: one byte of any file is another one. What comes of a repair is
// whole, and has all documents but those that were in one block.
func TestRepairOfFlippedBytes(t *testing.T) {
	start := testseed.Of(t)
	rng := rand.New(rand.NewPCG(start, 3))
	f := newFlipped(t, rng)
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(f.files)), func(name string) bool { return len(f.files[name]) == 0 })
	counts, worst := map[string]int{}, map[string]int{}
	for range max(flips()/25, 6) {
		name := names[rng.IntN(len(names))]
		data := slices.Clone(f.files[name])
		at := rng.IntN(len(data))
		data[at] ^= byte(1 + rng.IntN(255))
		report, docs, err := f.repaired(t, f.with(t, map[string][]byte{name: data}))
		if err != nil {
			t.Errorf("seed %d: %s, byte %d of %d: %v", start, name, at, len(data), err)
			continue
		}
		n := f.lost(t, docs)
		if n > 0 && report.Faults == 0 {
			t.Errorf("seed %d: %s, byte %d of %d: %d documents are lost in silence", start, name, at, len(data), n)
		}
		if n > 0 && !strings.HasSuffix(name, ".sst") {
			t.Errorf("seed %d: %s, byte %d of %d: %d documents are lost, and what the byte was is known", start, name, at, len(data), n)
		}
		counts[kindOf(name)]++
		worst[kindOf(name)] = max(worst[kindOf(name)], n)
	}
	t.Logf("seed %d; repairs %v; of %d documents, at most not as before: %v", start, counts, len(f.docs), worst)
}

// TestRepairWithoutManifest: what says which files there are is gone, or is nonsense.
func TestRepairWithoutManifest(t *testing.T) {
	f := newFlipped(t, rand.New(rand.NewPCG(testseed.Of(t), 4)))
	changed := map[string][]byte{}
	for name, data := range f.files {
		if strings.HasPrefix(name, "MANIFEST-") {
			changed[name] = make([]byte, len(data))
		}
	}
	report, docs, err := f.repaired(t, f.with(t, changed))
	if err != nil {
		t.Fatal(err)
	}
	// Which of two files is the newer one is not known for certain: what was deleted may
	// come back. Nothing may be missing.
	for _, d := range f.docs {
		if docs[d.ID] != d {
			t.Errorf("document %+v is %+v", d, docs[d.ID])
		}
	}
	t.Logf("%d documents of %d, %d faults", report.Documents, len(f.docs), report.Faults)
}

// TestRepairOfWrongEntries: every file is whole, and what is in them is wrong.
func TestRepairOfWrongEntries(t *testing.T) {
	f := newFlipped(t, rand.New(rand.NewPCG(testseed.Of(t), 5)))
	fsys := f.with(t, nil)
	s, err := store.Open("ix", store.Options{FS: fsys})
	if err != nil {
		t.Fatal(err)
	}
	b := s.NewBatch()
	for i := range uint64(50) {
		b.SetEntry(1, i*0x9e3779b97f4a7c15)
	}
	b.SetKeyIDs(17, store.NewIDs(3))
	b.SetCounters(store.Counters{NextID: f.next, Documents: 3, Bare: 1})
	b.ChangePosting(12345, store.NewIDs(1<<40), store.IDs{})
	for _, d := range f.docs[:5] { // with a record
		b.DeletePosting(store.Stored(uint64(d.Fingerprint), d.Scope))
		b.SetKeyIDs(store.KeyHash(d.Key), store.IDs{})
	}
	finish, err := s.Apply(b, true)
	if err == nil {
		err = errors.Join(finish(), s.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	report, docs, err := f.repaired(t, fsys)
	if err != nil {
		t.Fatal(err)
	}
	if n := f.lost(t, docs); n > 0 || report.Dropped != 1 {
		t.Errorf("%d documents are not what they were: %+v", n, report)
	}
}

// TestRepairIntoAnotherFolder leaves the index where it is; and what is there is refused.
func TestRepairIntoAnotherFolder(t *testing.T) {
	ctx := context.Background()
	f := newFlipped(t, rand.New(rand.NewPCG(testseed.Of(t), 6)))
	fsys := f.with(t, nil)
	for _, want := range []error{nil, fs.ErrExist} {
		report, err := compaction.Repair(ctx, "ix", compaction.RepairOptions{Options: compaction.Options{FS: fsys}, Dest: "better"})
		if !errors.Is(err, want) || want == nil && (report.Index != "better" || report.Kept != "ix") {
			t.Errorf("%+v, %v; want %v", report, err, want)
		}
	}
	if _, err := compaction.Repair(ctx, "nowhere", compaction.RepairOptions{Options: compaction.Options{FS: fsys}}); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	x, err := index.Open("ix", &index.Options{FS: fsys})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := compaction.Repair(ctx, "ix", compaction.RepairOptions{Options: compaction.Options{FS: fsys}}); !errors.Is(err, index.ErrLocked) {
		t.Error(err)
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := compaction.Repair(cancelled, "ix", compaction.RepairOptions{Options: compaction.Options{FS: fsys}}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if names, _ := fsys.List(""); fmt.Sprint(names) != "[better ix]" && fmt.Sprint(names) != "[ix better]" {
		t.Errorf("there is %v", names)
	}
}

// TestRepairOfHoles: some bytes of a table are zero. No document is lost in silence, and
// none that only other files have.
func TestRepairOfHoles(t *testing.T) {
	start := testseed.Of(t)
	rng := rand.New(rand.NewPCG(start, 7))
	f := newFlipped(t, rng)
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(f.files)), func(name string) bool { return !strings.HasSuffix(name, ".sst") })
	least := len(f.docs)
	for range max(flips()/200, 2) {
		name := names[rng.IntN(len(names))]
		data := slices.Clone(f.files[name])
		at := rng.IntN(len(data))
		clear(data[at:min(at+64, len(data))])
		report, docs, err := f.repaired(t, f.with(t, map[string][]byte{name: data}))
		if err != nil {
			t.Errorf("seed %d: %s, bytes from %d of %d: %v", start, name, at, len(data), err)
			continue
		}
		if n := f.lost(t, docs); n > 0 && report.Faults == 0 {
			t.Errorf("seed %d: %s, bytes from %d of %d: %d documents are lost in silence", start, name, at, len(data), n)
		} else {
			least = min(least, len(f.docs)-n)
		}
	}
	t.Logf("seed %d; of %d documents, at least %d are as before", start, len(f.docs), least)
}
