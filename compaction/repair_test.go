package compaction_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/indextest"
	"github.com/neardup/neardup/internal/plan"
	"github.com/neardup/neardup/internal/testenv"
	"github.com/neardup/neardup/internal/testgen"
	"github.com/neardup/neardup/internal/verify"
	"github.com/neardup/neardup/store"
)

// flipped is an index of which everything is known, as bytes: it has packed tables and
// filters, what was written since in tables of Pebble's and in the log, deletions among
// both, and everything in few bytes.
type flipped struct {
	seed  uint64
	rng   *rand.Rand
	files map[string][]byte
	names []string // of files that are not empty
	opts  index.Options
	gone  []uint64 // IDs of documents that were removed when they were in tables
	state
}

func newFlipped(t *testing.T, n uint64) *flipped {
	t.Helper()
	f := &flipped{seed: testenv.Seed(t), opts: index.Options{CacheBytes: 1 << 20, FilterBytes: 32 << 10}}
	f.rng = rand.New(rand.NewPCG(f.seed, n))
	d := &drawer{source: f.rng, keys: 1000}
	h := newHistory(vfs.NewMem())
	keyed := 0
	documents := func(n int) []index.Document {
		docs := d.documents(n)
		for i := range docs {
			if docs[i].Key != "" { // each once: where what it replaces comes back is another matter
				docs[i].Key = keyName(keyed)
				keyed++
			}
		}
		return docs
	}
	add := func(n int) {
		docs := documents(n)
		h.must(t, step{what: "open", open: f.opts})
		for part := range slices.Chunk(docs, 7) {
			h.quickly(t, step{what: "add", docs: part})
		}
		h.must(t, step{what: "delete", keys: []string{docs[1].Key, docs[2].Key, docs[3].Key}}, step{what: "close"})
	}
	add(400)
	h.must(t, step{what: "compact", work: compaction.Options{FilterBytes: f.opts.FilterBytes}})
	add(60)
	// A compaction that was ended has left the second epoch frozen, and some of it goes since.
	f.gone = []uint64{h.newest().NextID - 1, h.newest().NextID - 2, h.newest().NextID - 3}
	h.session(t, f.opts, step{what: "freeze"}, step{what: "delete IDs", ids: f.gone})
	add(60) // what the log had is in tables now
	h.session(t, f.opts)
	h.quickly(t, step{what: "open", open: f.opts})
	for range 30 {
		h.quickly(t, step{what: "add", docs: documents(1)})
	}
	h.must(t, step{what: "close"})
	f.state, f.files = *h.newest(), filesOf(t, h.fs, "ix")
	f.Rule.MaxDistance = 3
	f.names = slices.Sorted(maps.Keys(f.files))
	f.names = slices.DeleteFunc(f.names, func(name string) bool { return len(f.files[name]) == 0 })
	return f
}

func filesOf(t testing.TB, fsys vfs.FS, dir string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	names, err := fsys.List(dir)
	must(t, err)
	for _, name := range names {
		if info, err := fsys.Stat(fsys.PathJoin(dir, name)); err == nil && info.IsDir() {
			continue
		}
		file, err := fsys.Open(fsys.PathJoin(dir, name))
		must(t, err)
		data, err := io.ReadAll(file)
		must(t, err, file.Close())
		files[name] = data
	}
	return files
}

// with returns a file system that holds the index, with some files different.
func (f *flipped) with(t testing.TB, changed map[string][]byte) *vfs.MemFS {
	t.Helper()
	fsys := vfs.NewMem()
	must(t, fsys.MkdirAll("ix", 0o755))
	for name, data := range f.files {
		if other, is := changed[name]; is {
			data = other
		}
		file, err := fsys.Create("ix/"+name, vfs.WriteCategoryUnspecified)
		if err == nil {
			_, err = file.Write(slices.Clone(data)) // under the race detector, it is spoilt then
		}
		must(t, err, file.Close())
	}
	return fsys
}

// withoutManifest returns one where each MANIFEST is zeros.
func (f *flipped) withoutManifest(t testing.TB) *vfs.MemFS {
	t.Helper()
	changed := map[string][]byte{}
	for name, data := range f.files {
		if strings.HasPrefix(name, "MANIFEST-") {
			changed[name] = make([]byte, len(data))
		}
	}
	return f.with(t, changed)
}

// flip changes a byte of a file, drawn from all files alike or from all bytes alike. It
// returns which, and the file.
func (f *flipped) flip(anyByte bool) (what, name string, changed map[string][]byte) {
	name = pick(f.rng, f.names...)
	at := f.rng.IntN(len(f.files[name]))
	if anyByte {
		at = 0
		for _, data := range f.files {
			at += len(data)
		}
		at = f.rng.IntN(at)
		for _, name = range f.names {
			if at < len(f.files[name]) {
				break
			}
			at -= len(f.files[name])
		}
	}
	data, change := slices.Clone(f.files[name]), byte(1+f.rng.IntN(255))
	data[at] ^= change
	return fmt.Sprintf("seed %d: %s, byte %d of %d ^ %#02x", f.seed, name, at, len(data), change), name, map[string][]byte{name: data}
}

// kindOf sorts files for the counts.
func kindOf(name string) string {
	switch {
	case strings.HasSuffix(name, ".sst"):
		return "table"
	case strings.HasSuffix(name, ".log"):
		return "log"
	}
	return strings.ToLower(strings.SplitN(name, "-", 2)[0])
}

// outcome opens an index, looks at everything, and says what became of a flipped byte:
// "refused" by Open, "found" by Verify, or "harmless". An error is a wrong answer, or
// an error that is none of those which say what is wrong.
func (f *flipped) outcome(fsys vfs.FS, readOnly bool, queries []index.Document) (string, error) {
	opts := f.opts
	opts.FS, opts.ReadOnly, opts.MustExist = fsys, readOnly, true
	x, err := index.Open("ix", &opts)
	if err != nil {
		if !errors.Is(err, index.ErrCorrupt) && !errors.Is(err, index.ErrNotIndex) && !errors.Is(err, index.ErrVersion) && !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("open says what no one can act on: %w", err)
		}
		return "refused", nil
	}
	defer x.Close()
	errs := f.look(x, queries)
	for p := range x.Verify(context.Background(), verify.Options{}) {
		if p.Kind == "" || p.Message == "" {
			return "", fmt.Errorf("a problem that says nothing: %+v", p)
		}
		// What is damaged may not be answered, but not be answered wrongly either.
		for _, err := range errs {
			if !errors.Is(err, index.ErrCorrupt) {
				return "", fmt.Errorf("a wrong answer before Verify found %v: %w", p, err)
			}
		}
		return "found", nil
	}
	return "harmless", errors.Join(errs...)
}

// look compares all documents and some queries with what they should be.
func (f *flipped) look(x *index.Index, queries []index.Document) (errs []error) {
	if err := f.Compare(x); err != nil {
		errs = append(errs, err)
	}
	for _, like := range queries {
		if len(errs) > 1 {
			break // a damaged block that is read again takes Pebble long
		}
		if err := f.Query(x, like, f.Rule.MaxDistance, 0); err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// flips is how many bytes are flipped. Who reads them is one goroutine.
func flips() int {
	if testenv.Race {
		return 4
	}
	return testenv.Number(25, 150, 2100, 50_000)
}

// TestEveryFlippedByteIsHarmlessOrFound: one byte of any file of an index is another one.
// Open refuses the index, or Verify finds it, or everything is as it was.
func TestEveryFlippedByteIsHarmlessOrFound(t *testing.T) {
	t.Parallel()
	f := newFlipped(t, 0)
	var queries []index.Document
	for range 25 {
		queries = append(queries, index.Document{Fingerprint: f.Docs[f.rng.IntN(len(f.Docs))].Fingerprint ^ 1<<f.rng.IntN(64)})
	}
	if outcome, err := f.outcome(f.with(t, nil), false, queries); outcome != "harmless" || err != nil {
		t.Fatalf("with no byte flipped: %s, %v", outcome, err)
	}
	counts := map[string]int{}
	for range flips() {
		what, name, changed := f.flip(f.rng.IntN(2) == 0)
		outcome, err := f.outcome(f.with(t, changed), f.rng.IntN(2) == 0, queries)
		if err != nil {
			t.Errorf("%s: %s: %v", what, outcome, err)
		}
		counts[kindOf(name)+" "+outcome]++
	}
	for _, what := range slices.Sorted(maps.Keys(counts)) {
		t.Logf("%-20s %d", what, counts[what])
	}
}

// TestCancelledRepair ends when its context does, also while it reads tables one by one, and leaves nothing behind.
func TestCancelledRepair(t *testing.T) {
	f := newFlipped(t, 7)
	for n, ended := 1, false; !ended; n += 1 + n/8 {
		fsys := f.withoutManifest(t)
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex
		calls, opened, oneByOne := 0, 0, false
		_, err := compaction.Repair(ctx, "ix", compaction.RepairOptions{Options: compaction.Options{FS: errorfs.Wrap(fsys, errorfs.InjectorFunc(func(op errorfs.Op) error {
			mu.Lock()
			defer mu.Unlock()
			if calls++; calls == n {
				cancel()
			}
			oneByOne = oneByOne || strings.HasPrefix(op.Path, "ix.repaired.salvage/readable/")
			if calls > n && oneByOne && op.Kind == errorfs.OpOpen && strings.HasPrefix(op.Path, "ix.repaired.salvage/whole/") {
				opened++
			}
			return nil
		}))}})
		cancel()
		ended = err == nil
		names, _ := fsys.List("")
		if !ended && (!errors.Is(err, context.Canceled) || len(names) != 1 || opened > 1) || n == 1 && ended {
			t.Errorf("call %d of %d: %v; there is %v, and %d tables were opened since", n, calls, err, names, opened)
		}
	}
}

// failedOpens repairs an index again and again, and lets another file of a folder not be opened each time. A repair that fails
// leaves nothing.
func (f *flipped) failedOpens(t *testing.T, fsys func() *vfs.MemFS, folder string, cause syscall.Errno, look func(compaction.RepairReport, error)) {
	t.Helper()
	for n, ended := 1, false; !ended; n += 1 + n/32 {
		fsys := fsys()
		var opened atomic.Int64
		report, err := compaction.Repair(t.Context(), "ix", compaction.RepairOptions{Options: compaction.Options{FS: errorfs.Wrap(fsys, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind == errorfs.OpOpen && strings.HasPrefix(op.Path, folder) && opened.Add(1) == int64(n) {
				return &fs.PathError{Op: "open", Path: op.Path, Err: cause}
			}
			return nil
		}))}})
		names, _ := fsys.List("")
		if ended = opened.Load() < int64(n); err != nil && (ended || len(names) != 1) {
			t.Errorf("open %d: %v; there is %v", n, err, names)
		}
		look(report, err)
	}
}

// TestDeniedRepair: what the system refuses to open is no damage. Repair fails, or does without, and saves no less for it.
func TestDeniedRepair(t *testing.T) {
	f := newFlipped(t, 8)
	for _, fsys := range []func() *vfs.MemFS{func() *vfs.MemFS { return f.with(t, nil) }, func() *vfs.MemFS { return f.withoutManifest(t) }} {
		denied := 0
		f.failedOpens(t, fsys, "", syscall.EMFILE, func(report compaction.RepairReport, err error) {
			switch {
			case errors.Is(err, syscall.EMFILE):
				denied++
			case err != nil || report.Documents < uint64(len(f.Docs)):
				t.Errorf("%v; of %d documents are saved: %+v", err, len(f.Docs), report)
			}
		})
		if denied == 0 {
			t.Error("no repair failed")
		}
	}
}

// TestRepairOntoABadDisk ends where what it made cannot be read.
func TestRepairOntoABadDisk(t *testing.T) {
	f := newFlipped(t, 8)
	failed := 0
	f.failedOpens(t, func() *vfs.MemFS { return f.with(t, nil) }, "ix.repaired/", syscall.EIO, func(_ compaction.RepairReport, err error) {
		if errors.Is(err, compaction.ErrNotRepaired) && strings.Contains(err.Error(), "unreadable in file") {
			failed++
		}
	})
	if failed == 0 {
		t.Error("verify found nothing")
	}
}

// TestDamagedBlockIsReadFewTimes: Pebble looks for a flipped bit each time, up to a second for a chunk of a filter.
func TestDamagedBlockIsReadFewTimes(t *testing.T) {
	const most = 85 // more than half of them while 64 bits are halved
	f := newFlipped(t, 9)
	for _, name := range f.names {
		if kindOf(name) != "table" {
			continue
		}
		data := slices.Clone(f.files[name])
		clear(data[8:16])
		var mu sync.Mutex
		reads := 0
		_, err := compaction.Repair(t.Context(), "ix", compaction.RepairOptions{Options: compaction.Options{FS: errorfs.Wrap(f.with(t, map[string][]byte{name: data}), errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind == errorfs.OpFileReadAt && op.Offset == 0 && op.Path == "ix.repaired.salvage/whole/"+name {
				mu.Lock()
				reads++
				mu.Unlock()
			}
			return nil
		}))}})
		if err != nil && !errors.Is(err, compaction.ErrNotRepaired) {
			t.Error(err)
		}
		if reads > most {
			t.Errorf("%s: the first block was read %d times", name, reads)
		}
	}
}

// repaired repairs an index and opens the result, which Verify finds whole.
func (f *flipped) repaired(t *testing.T, fsys vfs.FS) (report compaction.RepairReport, docs indextest.Documents, err error) {
	t.Helper()
	before := filesOf(t, fsys, "ix")
	opts := compaction.RepairOptions{Options: compaction.Options{FS: fsys, FilterBytes: f.opts.FilterBytes, MemoryBytes: 1 << 20}}
	report, err = compaction.Repair(t.Context(), "ix", opts)
	if errors.Is(err, compaction.ErrNotRepaired) && strings.Contains(err.Error(), "plan cannot be read") {
		if opts.Plan, err = plan.Parse(f.plan); err != nil {
			t.Fatal(err)
		}
		report, err = compaction.Repair(t.Context(), "ix", opts)
	}
	names, _ := fsys.List("")
	if err != nil {
		if after := filesOf(t, fsys, "ix"); !maps.EqualFunc(after, before, slices.Equal) || len(names) != 1 {
			t.Errorf("a repair that failed (%v) has changed the index, or leaves %v", err, names)
		}
		return report, nil, err
	}
	after := filesOf(t, fsys, "ix.damaged")
	delete(before, "LOCK")
	delete(after, "LOCK")
	if !maps.EqualFunc(after, before, slices.Equal) || report.Index != "ix" || report.Kept != "ix.damaged" || len(names) != 2 {
		t.Errorf("the damaged index was changed, or %+v is wrong: there is %v", report, names)
	}
	reopen := f.opts
	reopen.FS = fsys
	x, err := index.Open("ix", &reopen)
	must(t, err)
	defer x.Close()
	docs, err = indextest.AllDocuments(x)
	if err := errors.Join(err, indextest.Problems(x), x.Add(t.Context(), index.Document{Key: "new", Fingerprint: 1})); err != nil {
		t.Error(err)
	}
	if uint64(len(docs)) != report.Documents {
		t.Errorf("%d documents, %+v", len(docs), report)
	}
	return report, docs, nil
}

// lost counts the documents that are not as they were. None may be there that was not.
func (f *flipped) lost(t *testing.T, docs indextest.Documents) (lost int) {
	t.Helper()
	got := map[uint64]index.Document{}
	for _, d := range docs {
		got[d.ID] = d
	}
	for _, d := range f.Docs {
		now := got[d.ID]
		if now.Added = d.Added; now != d { // the clock is in one block, too
			lost++
		}
		delete(got, d.ID)
	}
	for _, d := range got {
		t.Errorf("document %+v was not there", d)
	}
	return lost
}

// TestRepairOfWholeIndex changes nothing that can be seen.
func TestRepairOfWholeIndex(t *testing.T) {
	f := newFlipped(t, 2)
	for _, digest := range []bool{true, false} { // of the log; without one it is read to its end
		fsys := f.with(t, nil)
		if !digest {
			must(t, fsys.Remove("ix/DIGEST"))
		}
		report, docs, err := f.repaired(t, fsys)
		must(t, err)
		if n := f.lost(t, docs); n > 0 || report.Faults > 0 || report.DocumentsBefore != report.Documents || report.Dropped+report.RecordsLost+report.Replaced > 0 {
			t.Errorf("with a digest %v: %d documents are not what they were: %+v", digest, n, report)
		}
	}
}

// TestRepairOfFlippedBytes: one byte of any file is another one, or 64 bytes of a table are
// zero. What comes of a repair is whole. No document is lost in silence, and none that
// only other files than tables have.
func TestRepairOfFlippedBytes(t *testing.T) {
	t.Parallel()
	f := newFlipped(t, 3)
	tables := slices.DeleteFunc(slices.Clone(f.names), func(name string) bool { return !strings.HasSuffix(name, ".sst") })
	worst := map[string]int{}
	check := func(kind, what, name string, changed []byte) {
		report, docs, err := f.repaired(t, f.with(t, map[string][]byte{name: changed}))
		if err != nil {
			t.Errorf("%s: %v", what, err)
			return
		}
		if report.Faults > 0 && strings.HasSuffix(name, ".sst") { // what says that they are gone may be damaged
			docs = slices.DeleteFunc(docs, func(d index.Document) bool { return slices.Contains(f.gone, d.ID) })
		}
		n := f.lost(t, docs)
		if n > 0 && (report.Faults == 0 || !strings.HasSuffix(name, ".sst")) {
			t.Errorf("%s: %d documents are lost in silence, or what the byte was is known", what, n)
		}
		worst[kind] = max(worst[kind], n)
	}
	for range max(flips()/25, min(flips(), 6)) {
		what, name, changed := f.flip(false)
		check(kindOf(name), what, name, changed[name])
	}
	for range max(flips()/200, 2) {
		name := pick(f.rng, tables...)
		data := slices.Clone(f.files[name])
		at := f.rng.IntN(len(data))
		clear(data[at:min(at+64, len(data))])
		check("hole", fmt.Sprintf("seed %d: %s, bytes from %d of %d", f.seed, name, at, len(data)), name, data)
	}
	t.Logf("of %d documents, at most not as before: %v", len(f.Docs), worst)
}

// TestRepairWithoutManifest: what says which files there are is gone, or is nonsense. Which
// of two files is the newer one is not known for certain then: what was deleted may come
// back. Nothing may be missing.
func TestRepairWithoutManifest(t *testing.T) {
	f := newFlipped(t, 4)
	report, docs, err := f.repaired(t, f.withoutManifest(t))
	must(t, err)
	for _, d := range f.Docs {
		if !slices.Contains(docs, d) {
			t.Errorf("document %+v is missing, or another", d)
		}
	}
	t.Logf("%d documents of %d, %d faults", report.Documents, len(f.Docs), report.Faults)
}

func TestRepairWithOlderManifest(t *testing.T) {
	fsys := vfs.NewMem()
	var want indextest.Documents
	session := func(docs ...index.Document) {
		x, err := index.Open("ix", &index.Options{FS: fsys})
		must(t, err, x.Add(t.Context(), docs...))
		want, err = indextest.AllDocuments(x)
		must(t, err, x.Close())
	}
	session(index.Document{Key: "a", Fingerprint: 1}, index.Document{Key: "b", Fingerprint: 2})
	older := filesOf(t, fsys, "ix")
	session(index.Document{Key: "b", Fingerprint: 3}, index.Document{Key: "c", Fingerprint: 4}) // what the log had is in tables now
	session(index.Document{Key: "d", Fingerprint: 5})
	ofManifest := regexp.MustCompile(`^(MANIFEST-|marker\.manifest\.)`)
	for name := range filesOf(t, fsys, "ix") {
		if ofManifest.MatchString(name) {
			must(t, fsys.Remove("ix/"+name))
		}
	}
	for name, data := range older {
		if ofManifest.MatchString(name) {
			file, err := fsys.Create("ix/"+name, vfs.WriteCategoryUnspecified)
			must(t, err)
			_, err = file.Write(data)
			must(t, err, file.Close())
		}
	}
	if _, err := index.Open("ix", &index.Options{FS: fsys}); !errors.Is(err, index.ErrCorrupt) {
		t.Error("Open:", err)
	}
	_, err := compaction.Repair(t.Context(), "ix", compaction.RepairOptions{Options: compaction.Options{FS: fsys}})
	must(t, err)
	x, err := index.Open("ix", &index.Options{FS: fsys})
	must(t, err)
	defer x.Close()
	got, err := indextest.AllDocuments(x)
	if err := errors.Join(err, indextest.Problems(x)); err != nil || !slices.Equal(got, want) {
		t.Errorf("%v; of %+v there is %+v", err, want, got)
	}
}

// TestRepairOfStaleCounters: where the counters cannot be read that were written last, those of before are there, and say of what came
// since that it was never given out. Of the documents whose records can be read none may be missing.
func TestRepairOfStaleCounters(t *testing.T) {
	t.Parallel()
	h := newHistory(vfs.NewMem())
	for _, name := range []string{"first", "second"} {
		docs := bare(testgen.Uniform(h.r, 1000))
		for i := range docs {
			docs[i].Key = fmt.Sprint(name, i)
		}
		h.session(t, index.Options{}, step{what: "add", docs: docs})
	}
	h.session(t, index.Options{}) // what the log had is in tables now
	f := &flipped{state: *h.newest(), files: filesOf(t, h.fs, "ix")}
	newest := slices.Max(slices.DeleteFunc(slices.Collect(maps.Keys(f.files)), func(name string) bool { return !bytes.Contains(f.files[name], []byte("counters")) }))
	damaged := slices.Clone(f.files[newest])
	clear(damaged[bytes.Index(damaged, []byte("counters")):][:64])
	report, docs, err := f.repaired(t, f.with(t, map[string][]byte{newest: damaged}))
	must(t, err)
	if n := f.lost(t, docs); n > 0 || report.Faults == 0 || report.DocumentsBefore != 1000 {
		t.Errorf("%d documents are not what they were: %+v", n, report)
	}
}

// TestRepairOfWrongEntries: every file is whole, and what is in them is wrong.
func TestRepairOfWrongEntries(t *testing.T) {
	f := newFlipped(t, 5)
	fsys := f.with(t, nil)
	s, err := store.Open("ix", store.Options{FS: fsys})
	must(t, err)
	b := s.NewBatch()
	for i := range uint64(50) {
		b.SetEntry(1, i*0x9e3779b97f4a7c15)
	}
	b.SetKeyIDs(17, store.NewIDs(3))
	b.SetCounters(store.Counters{NextID: f.NextID, Documents: 3, Bare: 1})
	b.ChangePosting(12345, store.NewIDs(1<<40), store.IDs{})
	recorded := slices.DeleteFunc(slices.Clone(f.Docs), func(d index.Document) bool { return d.Key == "" })
	for _, d := range recorded[:5] {
		b.DeleteEntry(0, store.Stored(uint64(d.Fingerprint), d.Scope))
		b.SetKeyIDs(store.KeyHash(d.Key), store.IDs{})
	}
	finish, err := s.Apply(b, true)
	if err == nil {
		err = errors.Join(finish(), s.Close())
	}
	must(t, err)
	report, docs, err := f.repaired(t, fsys)
	must(t, err)
	if n := f.lost(t, docs); n > 0 || report.Dropped != 1 {
		t.Errorf("%d documents are not what they were: %+v", n, report)
	}
}

// TestRepairOfANewerFormat: it is not damaged, and what this version does not know of it would be lost.
func TestRepairOfANewerFormat(t *testing.T) {
	f := newFlipped(t, 7)
	fsys := f.with(t, nil)
	merger := &pebble.Merger{Name: "neardup.posting.1", Merge: pebble.DefaultMerger.Merge}
	db, err := pebble.Open("ix", &pebble.Options{FS: fsys, Merger: merger, FormatMajorVersion: pebble.FormatValueSeparation})
	must(t, err)
	newer := binary.BigEndian.AppendUint32([]byte("neardup\n"), store.Format+1)
	must(t, db.Set([]byte("mformat"), newer, nil), db.Close())
	before := filesOf(t, fsys, "ix")
	for _, dest := range []string{"", "better"} {
		report, err := compaction.Repair(t.Context(), "ix", compaction.RepairOptions{Options: compaction.Options{FS: fsys}, Dest: dest})
		if !errors.Is(err, index.ErrVersion) {
			t.Errorf("%+v, %v", report, err)
		}
	}
	if names, err := fsys.List(""); err != nil || fmt.Sprint(names) != "[ix]" || !maps.EqualFunc(before, filesOf(t, fsys, "ix"), bytes.Equal) {
		t.Errorf("the index is another one, or there are others: %v, %v", names, err)
	}
}

// TestRepairIntoAnotherFolder leaves the index where it is; and what is there is refused.
func TestRepairIntoAnotherFolder(t *testing.T) {
	f := newFlipped(t, 6)
	fsys := f.with(t, nil)
	repair := func(ctx context.Context, dir, dest string, want error) {
		t.Helper()
		report, err := compaction.Repair(ctx, dir, compaction.RepairOptions{Options: compaction.Options{FS: fsys}, Dest: dest})
		if !errors.Is(err, want) || want == nil && (report.Index != dest || report.Kept != dir) {
			t.Errorf("%+v, %v; want %v", report, err, want)
		}
	}
	repair(t.Context(), "ix", "better", nil)
	repair(t.Context(), "ix", "better", fs.ErrExist)
	repair(t.Context(), "nowhere", "", fs.ErrNotExist)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	repair(cancelled, "ix", "", context.Canceled)
	x, err := index.Open("ix", &index.Options{FS: fsys})
	must(t, err)
	others := []string{"ix.repaired/of another", "ix.repaired.salvage/of another"}
	for _, name := range others {
		must(t, fsys.MkdirAll(path.Dir(name), 0o755), fsys.MkdirAll(name, 0o755))
	}
	repair(t.Context(), "ix", "", index.ErrLocked)
	for _, name := range others {
		if _, err := fsys.Stat(name); err != nil {
			t.Errorf("a Repair that was refused has removed what is another's: %v", err)
		}
		must(t, fsys.RemoveAll(path.Dir(name)))
	}
	must(t, x.Close())
	must(t, fsys.MkdirAll("empty", 0o755), fsys.MkdirAll("others", 0o755))
	file, err := fsys.Create("others/server.log", vfs.WriteCategoryUnspecified)
	must(t, err, file.Close())
	repair(t.Context(), "empty", "", index.ErrNotIndex)
	repair(t.Context(), "others", "", index.ErrNotIndex)
	repair(t.Context(), "others/server.log", "", index.ErrNotIndex)
	names, _ := fsys.List("")
	if slices.Sort(names); fmt.Sprint(names) != "[better empty ix others]" {
		t.Errorf("there is %v", names)
	}
	if left := filesOf(t, fsys, "empty"); len(left) > 0 {
		t.Errorf("a folder that was empty holds %v", left)
	}
}

// TestRepairByAnyName: a folder has other names, to which no ending can be added.
func TestRepairByAnyName(t *testing.T) {
	dir := t.TempDir()
	ix := filepath.Join(dir, "ix")
	x, err := index.Open(ix, nil)
	must(t, err)
	must(t, x.Add(t.Context(), index.Document{Key: "a page", Fingerprint: 1}), x.Close())
	link := filepath.Join(t.TempDir(), "link")
	must(t, os.Symlink(ix, link))
	t.Chdir(ix)
	for _, names := range [][2]string{{ix + "/", ""}, {ix, dir + "/better/"}, {".", ""}, {link, ""}} {
		report, err := compaction.Repair(t.Context(), names[0], compaction.RepairOptions{Dest: names[1]})
		if err != nil || report.Documents != 1 || report.Faults > 0 || names[1] == "" && report.Index != ix {
			t.Errorf("%q: %+v, %v", names, report, err)
		}
		t.Chdir(ix) // it is another one
	}
	left, err := os.ReadDir(dir)
	if must(t, err); fmt.Sprint(left) != "[d better/ d ix/ d ix.damaged/ d ix.damaged-2/ d ix.damaged-3/]" {
		t.Errorf("there is %v", left)
	}
}
