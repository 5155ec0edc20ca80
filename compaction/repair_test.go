package compaction_test

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/plan"
	"github.com/neardup/neardup/internal/testing/crashfs"
	"github.com/neardup/neardup/internal/testing/indextest"
	"github.com/neardup/neardup/internal/testing/testenv"
	"github.com/neardup/neardup/internal/testing/testgen"
	"github.com/neardup/neardup/internal/verify"
)

// flipped is a small index whose files are damaged. It has packed tables, filters, live entries in
// Pebble's tables and in the log, and removed IDs of packed and live entries.
type flipped struct {
	seed  uint64
	rng   *rand.Rand
	disk  *crashfs.FS
	sizes map[string]int // of the files that are not empty
	opts  index.Options
	state
}

func newFlipped(t *testing.T, n uint64) *flipped {
	t.Helper()
	f := &flipped{seed: testenv.Seed(t), disk: crashfs.New(), sizes: make(map[string]int),
		opts: index.Options{CacheBytes: 1 << 20, FilterBytes: 32 << 10}}
	f.rng = rand.New(rand.NewPCG(f.seed, n))
	d := &drawer{source: f.rng, keys: 1000}
	h := newHistory(f.disk)
	keyed := 0
	open := step{what: "open", open: f.opts}
	// add adds documents in parts, each of which is one batch in the log.
	add := func(n, part int) {
		docs := d.documents(n)
		for i := range docs {
			if docs[i].Key != "" { // each key once, since damage may restore a replaced document
				docs[i].Key = keyName(keyed)
				keyed++
			}
		}
		h.must(t, open)
		for some := range slices.Chunk(docs, part) {
			h.must(t, step{what: "add", docs: some})
		}
		h.must(t, step{what: "delete", keys: []string{docs[1].Key, docs[2].Key, docs[3].Key}},
			step{what: "close"})
	}
	add(400, 20)
	h.must(t, step{what: "compact", work: compaction.Options{FilterBytes: f.opts.FilterBytes}})
	add(60, 20)
	// An interrupted compaction left the second epoch frozen. Later, some of its documents and some
	// packed documents are removed.
	gone := []uint64{h.newest().NextID - 1, h.newest().NextID - 2, h.newest().NextID - 3}
	for _, packed := range h.newest().Docs[:20] {
		gone = append(gone, packed.ID)
	}
	h.must(t, opened(f.opts, step{what: "freeze"}, step{what: "delete IDs", ids: gone})...)
	add(60, 20) // moves the entries of the log into tables
	h.must(t, opened(f.opts)...)
	add(30, 2)
	f.state = *h.newest()
	f.Rule.MaxDistance = 3
	for name, data := range filesOf(t, f.disk, "ix") {
		if len(data) > 0 {
			f.sizes[name] = len(data)
		}
	}
	return f
}

// filesOf returns the content of the files in a directory.
func filesOf(t testing.TB, fsys vfs.FS, dir string) map[string]string {
	t.Helper()
	files := make(map[string]string)
	names, err := fsys.List(dir)
	must(t, err)
	for _, name := range names {
		if name == "LOCK" {
			continue
		}
		file, err := fsys.Open(fsys.PathJoin(dir, name))
		must(t, err)
		data, err := io.ReadAll(file)
		must(t, err, file.Close())
		files[name] = string(data)
	}
	return files
}

// damage returns a copy of the index in which a byte of a file, or sometimes 64 bytes, are
// changed. It draws the file evenly or by size, and describes the change.
func (f *flipped) damage(t *testing.T, names []string) (fsys *crashfs.FS, what, name string) {
	t.Helper()
	if name = pick(f.rng, names...); f.rng.IntN(2) == 0 {
		var bySize []string
		for _, name := range names {
			bySize = append(bySize, slices.Repeat([]string{name}, 1+f.sizes[name]>>10)...)
		}
		name = pick(f.rng, bySize...)
	}
	at := f.rng.IntN(f.sizes[name])
	data := make([]byte, min(64, f.sizes[name]-at))
	fsys = copyOf(f.disk, f.rng)
	file, err := fsys.OpenReadWrite("ix/"+name, vfs.WriteCategoryUnspecified)
	must(t, err)
	_, err = file.ReadAt(data, int64(at))
	must(t, err)
	if f.rng.IntN(4) == 0 {
		clear(data)
	} else {
		data[0] ^= byte(1 + f.rng.IntN(255))
	}
	_, err = file.WriteAt(data, int64(at))
	must(t, err, file.Close())
	return fsys, fmt.Sprintf("seed %d: %s, byte %d of %d: %x", f.seed, name, at, f.sizes[name],
		data), name
}

// outcome opens an index, reads everything, and returns the effect of the damage: "refused" by
// Open, "found" by Verify, or "harmless". It returns an error for a wrong answer, and for an error
// that does not name the damage.
func (f *flipped) outcome(fsys vfs.FS) (string, error) {
	opts := f.opts
	opts.FS, opts.ReadOnly, opts.MustExist = fsys, f.rng.IntN(2) == 0, true
	x, err := index.Open("ix", &opts)
	if err != nil {
		if !errors.Is(err, index.ErrCorrupt) && !errors.Is(err, index.ErrNotIndex) &&
			!errors.Is(err, index.ErrVersion) && !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("Open returns an error that does not name the damage: %w", err)
		}
		return "refused", nil
	}
	defer x.Close()
	errs := []error{f.Compare(x)}
	for range 25 {
		like := index.Document{Fingerprint: f.Docs[f.rng.IntN(len(f.Docs))].Fingerprint}
		like.Fingerprint ^= 1 << f.rng.IntN(64)
		if errors.Join(errs...) == nil { // Pebble takes long to read a damaged block again
			errs = append(errs, f.Query(x, like, f.Rule.MaxDistance, 0))
		}
	}
	err = errors.Join(errs...)
	for p := range x.Verify(context.Background(), verify.Options{}) {
		if p.Kind == "" || p.Message == "" {
			return "", fmt.Errorf("a problem without a description: %+v", p)
		}
		// Damaged data may make a call fail, but must not make an answer wrong.
		if err != nil && !errors.Is(err, index.ErrCorrupt) {
			return "", fmt.Errorf("a wrong answer before Verify found %v: %w", p, err)
		}
		return "found", nil
	}
	return "harmless", err
}

// flips returns the number of bytes to flip. It is small under the race detector, since one
// goroutine reads them.
func flips() int {
	if testenv.Race {
		return 4
	}
	return testenv.Number(25, 150, 2100, 50_000)
}

// TestEveryFlippedByteIsHarmlessOrFound flips one byte of any file of an index. Open must refuse
// the index, or Verify must find the damage, or nothing may change. Pebble treats a damaged
// record at the end of a log or a MANIFEST as a write that a crash cut short. For these files,
// the answers may be correct for an earlier state.
func TestEveryFlippedByteIsHarmlessOrFound(t *testing.T) {
	t.Parallel()
	f := newFlipped(t, 0)
	if outcome, err := f.outcome(copyOf(f.disk, f.rng)); outcome != "harmless" || err != nil {
		t.Fatalf("without damage: %s, %v", outcome, err)
	}
	counts, names := map[string]int{}, slices.Sorted(maps.Keys(f.sizes))
	for range flips() {
		fsys, what, name := f.damage(t, names)
		outcome, err := f.outcome(fsys)
		kind := cmp.Or(path.Ext(name), name)
		if err != nil && kind == ".sst" {
			t.Errorf("%s: %s: %v", what, outcome, err)
		}
		counts[kind+" "+outcome]++
	}
	t.Log(counts)
}

// repaired repairs an index into "new". p and analyzer are set if its meta entries cannot be read.
// repaired verifies the new index and counts the documents of f that are missing there. The other
// documents and the damaged index must be unchanged.
func (f *flipped) repaired(
	t *testing.T, what string, fsys vfs.FS, p *plan.Plan, analyzer string,
) (report compaction.RepairReport, missing uint64, err error) {
	t.Helper()
	opts := compaction.RepairOptions{Options: compaction.Options{FS: fsys, Plan: p,
		FilterBytes: f.opts.FilterBytes, MemoryBytes: 1 << 20}}
	if p != nil {
		opts.Analyzer = &analyzer
	}
	before := filesOf(t, fsys, "ix")
	report, err = compaction.Repair(t.Context(), "ix", "new", opts)
	if !maps.Equal(filesOf(t, fsys, "ix"), before) {
		t.Errorf("%s: the damaged index has changed", what)
	}
	if err != nil {
		if _, err := fsys.Stat("new"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: a failed repair leaves a new index: %v", what, err)
		}
		return report, 0, err
	}
	x, err := index.Open("new", &index.Options{FS: fsys, MustExist: true})
	must(t, err)
	defer x.Close()
	docs, err := indextest.AllDocuments(x)
	more := []index.Document{{Key: "more", Fingerprint: 1}}
	must(t, err, indextest.Problems(x), x.Add(t.Context(), more...))
	if report.DocumentsBefore > 0 && more[0].ID < f.NextID {
		t.Errorf("%s: a new document has the ID %d of an earlier document", what, more[0].ID)
	}
	want := f.Docs.Without(func(d *index.Document) bool { return !docs.Has(d.ID) })
	if diff := indextest.Difference(docs, want); diff != "" {
		t.Errorf("%s: %s", what, diff)
	}
	missing = uint64(len(f.Docs) - len(want))
	if uint64(len(docs)) != report.Documents || missing > 0 && (report.Unreadable == 0 ||
		report.DocumentsBefore > 0 && report.Lost < missing) {
		t.Errorf("%s: %d documents, %d missing: %+v", what, len(docs), missing, report)
	}
	return report, missing, nil
}

// TestRepairOfDamagedTables damages a table file. Repair must copy the readable documents and count
// the rest, or report that the index cannot be repaired. From an index without damage, it must copy
// everything.
func TestRepairOfDamagedTables(t *testing.T) {
	t.Parallel()
	f := newFlipped(t, 3)
	report, missing, err := f.repaired(t, "whole", copyOf(f.disk, f.rng), nil, "")
	if err != nil || missing+report.Lost+report.Unreadable > 0 ||
		report.DocumentsBefore != report.Documents {
		t.Errorf("documents, IDs or times of a whole index have changed: %+v, %v", report, err)
	}
	p, err := plan.Parse(f.plan)
	must(t, err)
	tables := slices.DeleteFunc(slices.Sorted(maps.Keys(f.sizes)),
		func(name string) bool { return path.Ext(name) != ".sst" })
	outcomes := map[string]uint64{}
	for range max(flips()/3, min(flips(), 6)) {
		fsys, what, _ := f.damage(t, tables)
		_, missing, err := f.repaired(t, what, fsys, nil, "")
		if errors.Is(err, compaction.ErrNotRepaired) {
			outcomes["meta damaged"]++
			_, missing, err = f.repaired(t, what, fsys, p, "")
		}
		switch {
		case err == nil:
			outcomes["repaired"]++
			outcomes["documents lost"] += missing
		case errors.Is(err, index.ErrCorrupt):
			outcomes["refused"]++
		default:
			t.Errorf("%s: %v", what, err)
		}
	}
	if t.Log(outcomes); outcomes["repaired"] == 0 {
		t.Error("Repair never succeeded")
	}
}

// openPebble opens the database of an index.
func openPebble(t *testing.T, fsys vfs.FS) *pebble.DB {
	t.Helper()
	// equivalent to the ones of package store for the keys of small indexes
	comparer, merger := *pebble.DefaultComparer, *pebble.DefaultMerger
	comparer.Name, merger.Name = "neardup.1", "neardup.duplicates"
	db, err := pebble.Open("ix", &pebble.Options{FS: fsys, Comparer: &comparer, Merger: &merger,
		FormatMajorVersion: pebble.FormatValueSeparation})
	must(t, err)
	return db
}

// TestRepairLosesOnlyUnreadableRecords damages single records, adjacent ones, and the entry of a
// removed ID. Repair must report one place per gap, and lose no other document. Neither a document
// without a readable record nor the removed document may become a document with only a fingerprint.
func TestRepairLosesOnlyUnreadableRecords(t *testing.T) {
	docs := bare(testgen.Uniform(rand.New(rand.NewPCG(1, 1)), 100))
	for i := range docs[:80] {
		docs[i].Key = keyName(i)
	}
	h := newHistory(vfs.NewMem())
	const removed = 90
	h.must(t, step{what: "load", docs: docs})
	h.must(t, opened(index.Options{},
		step{what: "delete IDs", ids: []uint64{removed - 1, removed}})...)
	f := &flipped{state: *h.newest()}
	db := openPebble(t, h.fs)
	entry := binary.BigEndian.AppendUint64([]byte("t\xff\xff"), removed) // see docs/format.md
	must(t, db.Set(entry, []byte{1}, nil))
	lost := uint64(0)
	for _, gap := range [][2]uint64{{1, 1}, {5, 5}, {7, 7}, {10, 17}, {30, 44}, {60, 80}} {
		for id := gap[0]; id <= gap[1]; id++ {
			must(t, db.Set(binary.BigEndian.AppendUint64([]byte{'d'}, id), nil, nil))
			lost++
		}
	}
	must(t, db.Close())
	report, missing, err := f.repaired(t, "records", h.fs, nil, "")
	if err != nil || missing != lost || report.Lost != lost+1 || report.Unreadable != 7 ||
		report.Bare != 18 {
		t.Errorf("%d documents are missing, want %d: %+v, %v", missing, lost, report, err)
	}
}

// TestRepairHasNoDefaults tests that Repair requires the plan and the analyzer if it cannot read
// one of them.
func TestRepairHasNoDefaults(t *testing.T) {
	for _, lost := range []string{"mplan", "manalyzer"} {
		h := newHistory(vfs.NewMem())
		h.must(t, opened(index.Options{MaxDistance: 5, Analyzer: "of mine"},
			step{what: "add", docs: []index.Document{{Key: "a", Fingerprint: 1}, {}}})...)
		f := &flipped{state: *h.newest()}
		db := openPebble(t, h.fs)
		must(t, db.Delete([]byte(lost), nil), db.Close())
		if _, _, err := f.repaired(t, lost, h.fs, nil, ""); !errors.Is(err,
			compaction.ErrNotRepaired) {
			t.Errorf("without %s: %v", lost, err)
		}
		p, err := plan.Parse(f.plan)
		must(t, err)
		_, missing, err := f.repaired(t, lost, h.fs, p, "of mine")
		if err != nil || missing > 0 {
			t.Errorf("with %s: %d are missing, %v", lost, missing, err)
		}
		x, err := index.Open("new", &index.Options{FS: h.fs, MustExist: true})
		must(t, err)
		if s := x.Stats(); s.MaxDistance != 5 || s.Plan != f.plan || s.Analyzer != "of mine" {
			t.Errorf("%s: %+v", lost, s)
		}
		must(t, x.Close())
	}
}

// TestRepairKeepsExistingDirectories tests that Repair never writes to an existing file or
// directory. A failed Repair must change nothing.
func TestRepairKeepsExistingDirectories(t *testing.T) {
	fsys := vfs.NewMem()
	dirs := []string{"empty", "ix", "other"}
	must(t, fsys.MkdirAll("empty", 0o755))
	for _, dir := range dirs[1:] {
		x, err := index.Open(dir, &index.Options{FS: fsys})
		must(t, err, x.Add(t.Context(), index.Document{Key: dir, Fingerprint: 1}), x.Close())
	}
	before := make(map[string]map[string]string)
	for _, dir := range dirs {
		before[dir] = filesOf(t, fsys, dir)
	}
	opts := compaction.RepairOptions{Options: compaction.Options{FS: fsys}}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	repair := func(ctx context.Context, dir, dest string, want ...error) {
		t.Helper()
		report, err := compaction.Repair(ctx, dir, dest, opts)
		if !slices.ContainsFunc(want, func(w error) bool { return errors.Is(err, w) }) {
			t.Errorf("%s to %s: %+v, %v", dir, dest, report, err)
		}
	}
	for _, dest := range append(dirs, "other/LOCK") {
		repair(t.Context(), "ix", dest, fs.ErrExist)
	}
	repair(cancelled, "ix", "new", context.Canceled)
	repair(t.Context(), "nowhere", "new", fs.ErrNotExist)
	repair(t.Context(), "empty", "new", index.ErrNotIndex, fs.ErrNotExist)
	repair(t.Context(), "ix", "new", nil)
	repair(t.Context(), "ix", "new", fs.ErrExist)
	for dir, files := range before {
		if !maps.Equal(filesOf(t, fsys, dir), files) {
			t.Errorf("%s was changed", dir)
		}
	}
	names, err := fsys.List("")
	must(t, err)
	if slices.Sort(names); fmt.Sprint(names) != "[empty ix new other]" {
		t.Errorf("files: %v", names)
	}
}
