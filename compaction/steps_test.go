package compaction_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/testing/crashfs"
	"github.com/neardup/neardup/internal/testing/testenv"
)

// The tests of this file stop, fail or cut short one step of a checkpoint, a compaction or a load, and
// compare the documents and the answers with those before it.

// randomDocuments returns n documents that are far from each other. Of three documents, two have keys.
func randomDocuments(r *rand.Rand, n int) []index.Document {
	docs := make([]index.Document, n)
	for i := range docs {
		docs[i].Fingerprint = fingerprint.Fingerprint(r.Uint64())
		if i%3 != 0 {
			docs[i].Key = fmt.Sprintf("%d/%x", i, r.Uint64())
		}
	}
	return docs
}

func allOf(docs []index.Document) iter.Seq2[index.Document, error] {
	return func(yield func(index.Document, error) bool) {
		for _, d := range docs {
			if !yield(d, nil) {
				return
			}
		}
	}
}

// contentsOf returns the documents of an index by ID, and verifies the index.
func contentsOf(t testing.TB, x *index.Index) map[uint64]string {
	t.Helper()
	all := make(map[uint64]string)
	for d, err := range x.Documents(context.Background()) {
		must(t, err)
		all[d.ID] = fmt.Sprintf("%q %v", d.Key, d.Fingerprint)
	}
	if n := x.Stats().Documents; n != uint64(len(all)) {
		t.Errorf("the index has %d documents and counts %d", len(all), n)
	}
	for problem := range x.Verify(context.Background(), index.VerifyOptions{}) {
		t.Errorf("Verify: %v", problem)
	}
	return all
}

// expectNear requires that each document has exactly one match one bit from it, and that a document
// there is a duplicate.
func expectNear(t testing.TB, x *index.Index, docs []index.Document) {
	t.Helper()
	for i, d := range docs {
		d.Fingerprint, d.Key, d.ID = d.Fingerprint^1<<(i%64), "", 0
		matches, err := x.Query(context.Background(), index.Query{Signature: d.Signature()})
		if err != nil || len(matches) != 1 || matches[0].Distance != 1 {
			t.Fatalf("document %d: %d matches, error %v", i, len(matches), err)
		}
		if v, err := x.CheckAndAdd(context.Background(), d); err != nil || v.Status != index.Duplicate {
			t.Fatalf("document %d: a page one bit from it is %v, error %v", i, v.Status, err)
		}
	}
}

// hookFS calls before for each operation that changes files.
func hookFS(fs vfs.FS, before func(op errorfs.Op) error) vfs.FS {
	return errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() != errorfs.OpIsWrite {
			return nil
		}
		return before(op)
	}))
}

// TestCheckpointBetweenTwoCompactions makes a checkpoint that has the files from before a compaction installs its
// tables, and the log until the next compaction has frozen its epoch, which has the keyspace of the first.
func TestCheckpointBetweenTwoCompactions(t *testing.T) {
	ctx := context.Background()
	r := rand.New(rand.NewPCG(testenv.Seed(t), 2))
	docs := randomDocuments(r, 20)
	inEpoch := func(n int) (copies []index.Document) { // of equal fingerprints, in each epoch
		for i, d := range docs {
			copies = append(copies, index.Document{Key: fmt.Sprintf("%d in epoch %d", i, n), Fingerprint: d.Fingerprint})
		}
		return copies
	}
	var packing, installing, copying func()
	once := func(f *func()) {
		if call := *f; call != nil {
			*f = nil
			call()
		}
	}
	mem := vfs.NewMem()
	x, err := index.Open("ix", &index.Options{Durability: index.NoSync, FS: hookFS(mem, func(op errorfs.Op) error {
		switch {
		case op.Kind == errorfs.OpCreate && strings.HasPrefix(op.Path, "ix/incoming/"):
			once(&packing)
		case op.Kind == errorfs.OpLink && strings.HasPrefix(op.Path, "ix/incoming/"):
			once(&installing)
		case strings.HasPrefix(op.Path, "copy"):
			once(&copying)
		}
		return nil
	})})
	must(t, err, x.Add(ctx, inEpoch(0)...))
	reached, goOn, made := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	copying = func() { close(reached); <-goOn }
	packing = func() { must(t, x.Add(ctx, inEpoch(1)...)) }
	installing = func() {
		go func() { made <- x.Checkpoint(ctx, "copy") }()
		<-reached
	}
	_, err = compaction.Compact(ctx, x, compaction.Options{})
	must(t, err)
	_, err = x.Delete(ctx, inEpoch(0)[0].Key, inEpoch(1)[1].Key)
	must(t, err)
	frozen, done := make(chan struct{}), make(chan error, 1)
	packing = func() {
		must(t, x.Add(ctx, inEpoch(2)...), x.Sync(ctx)) // to the log that is copied
		close(frozen)
		<-made
		made <- nil
	}
	go func() {
		_, err := compaction.Compact(ctx, x, compaction.Options{})
		done <- err
	}()
	select { // The second compaction may wait for the end of the checkpoint.
	case <-frozen:
	case <-time.After(100 * time.Millisecond):
	}
	must(t, x.Sync(ctx))
	close(goOn)
	must(t, <-made)
	made <- nil
	must(t, <-done, x.Close())
	y, err := index.Open("copy", &index.Options{FS: mem, MustExist: true})
	must(t, err)
	want := contentsOf(t, y)
	if n := len(want); n != 38 && n != 58 {
		t.Errorf("the checkpoint has %d documents", n)
	}
	for range 3 {
		_, err := compaction.Compact(ctx, y, compaction.Options{})
		must(t, err)
		if got := contentsOf(t, y); !maps.Equal(got, want) {
			t.Errorf("after a compaction the checkpoint has %d documents, not %d", len(got), len(want))
		}
		must(t, y.Add(ctx, randomDocuments(r, 1)...))
		want = contentsOf(t, y)
	}
	must(t, y.Close())
}

// TestFlushFailsAndContinues fails one operation of a flush. Either the index returns ErrFailed, or it
// finds all documents without being opened again.
func TestFlushFailsAndContinues(t *testing.T) {
	ctx := context.Background()
	r := rand.New(rand.NewPCG(testenv.Seed(t), 3))
	failed := 0
	for failAt := 1; ; failAt++ {
		var on atomic.Bool
		var seen atomic.Int64
		fsys := hookFS(vfs.NewMem(), func(op errorfs.Op) error {
			if on.Load() && strings.HasSuffix(op.Path, ".sst") && seen.Add(1) == int64(failAt) {
				return errorfs.ErrInjected
			}
			return nil
		})
		x, err := index.Open("ix", &index.Options{FS: fsys, Durability: index.NoSync})
		must(t, err)
		docs := randomDocuments(r, 60)
		must(t, x.Add(ctx, docs[:30]...))
		on.Store(true)
		_, err = compaction.Compact(ctx, x, compaction.Options{}) // It flushes the memtable.
		on.Store(false)
		if seen.Load() < int64(failAt) {
			must(t, errors.Join(err, x.Close()))
			break
		}
		failed++
		stored := docs[:30]
		if err := x.Add(ctx, docs[30:]...); err == nil {
			stored = docs
			expectNear(t, x, stored)
			contentsOf(t, x)
		} else if !errors.Is(err, index.ErrFailed) {
			t.Fatalf("operation %d: %v", failAt, err)
		}
		x.Close()
		x, err = index.Open("ix", &index.Options{FS: fsys, MustExist: true})
		must(t, err)
		expectNear(t, x, stored[:30])
		must(t, x.Close())
	}
	if failed < 3 {
		t.Errorf("%d operations failed", failed)
	}
}

// isTemporary reports whether a file exists only while a load or a compaction runs.
func isTemporary(name string) bool { return strings.Contains(name, "/incoming/") }

// truncatingFS truncates one temporary file after it was written and before it is read or linked.
type truncatingFS struct {
	vfs.FS
	mu     sync.Mutex
	n      int     // the number of the file, from 0
	part   float64 // of the file, which remains
	seen   int
	target string
	closed bool
}

func (f *truncatingFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := f.FS.Create(name, category)
	if err != nil || !isTemporary(name) {
		return file, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.seen++; f.seen-1 != f.n {
		return file, nil
	}
	f.target = name
	return &truncatedFile{File: file, fs: f, name: name}, nil
}

// Open opens a truncated copy of the file if the writer has not closed it. A file of records ends after
// a whole record.
func (f *truncatingFS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	in, err := f.FS.Open(name, opts...)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil || name != f.target || f.closed {
		return in, err
	}
	data, err := io.ReadAll(in)
	if err := errors.Join(err, in.Close()); err != nil {
		return nil, err
	}
	size := int(f.part * float64(len(data)))
	if strings.HasSuffix(name, "/records") {
		end := 0
		for end < size { // a record is its ID, its length and its bytes
			end += 12 + int(binary.BigEndian.Uint32(data[end+8:]))
		}
		size = end
	}
	out, err := f.FS.Create(name+".truncated", vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, err
	}
	_, err = out.Write(data[:size])
	if err := errors.Join(err, out.Close()); err != nil {
		return nil, err
	}
	return f.FS.Open(name+".truncated", opts...)
}

// truncatedFile is truncated at its first read, or when it is closed.
type truncatedFile struct {
	vfs.File
	fs   *truncatingFS
	name string
	once sync.Once
	size int64
}

// cut sets the size of the file that remains.
func (f *truncatedFile) cut() {
	f.once.Do(func() {
		if info, err := f.File.Stat(); err == nil {
			f.size = int64(f.fs.part * float64(info.Size()))
			f.size -= f.size % 240 // whole records of 8, 12, 16, 20, 24, 30, 40 or 48 bytes
		}
	})
}

func (f *truncatedFile) ReadAt(p []byte, offset int64) (int, error) {
	f.cut()
	n, err := f.File.ReadAt(p, offset)
	if left := max(0, f.size-offset); int64(n) > left {
		return int(left), io.EOF
	}
	return n, err
}

func (f *truncatedFile) Close() error {
	f.fs.mu.Lock()
	f.fs.closed = true
	f.fs.mu.Unlock()
	f.cut()
	data := make([]byte, f.size)
	_, err := f.File.ReadAt(data, 0)
	if err == io.EOF {
		err = nil
	}
	err = errors.Join(err, f.File.Close())
	if err != nil {
		return err
	}
	file, err := f.fs.FS.Create(f.name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	return errors.Join(err, file.Sync(), file.Close())
}

// TestTruncatedTemporaryFile truncates each temporary file of a load that needs more memory than it
// has, and of a compaction. An error must be returned and the documents must be those before it, or the
// truncation had no effect.
func TestTruncatedTemporaryFile(t *testing.T) {
	every := testenv.Number(4, 2, 1, 1)
	if testenv.Race {
		every = 25
	}
	ctx := context.Background()
	r := rand.New(rand.NewPCG(testenv.Seed(t), 5))
	base, loaded := crashfs.New(), randomDocuments(r, 70_000)
	first := randomDocuments(r, 2000)
	_, err := compaction.Load(ctx, "ix", allOf(first[:100]), compaction.LoadOptions{Index: index.Options{FS: base}})
	must(t, err)
	x, err := index.Open("ix", &index.Options{FS: base, MustExist: true})
	must(t, err)
	must(t, errors.Join(x.Add(ctx, slices.Clone(first[100:])...), x.Close()))
	for _, work := range []struct {
		name string
		do   func(fsys vfs.FS) error
		want []index.Document
	}{
		{"load", func(fsys vfs.FS) error {
			_, err := compaction.Load(ctx, "ix", allOf(loaded), compaction.LoadOptions{MemoryBytes: 1, Index: index.Options{FS: fsys}})
			return err
		}, append(slices.Clone(first), loaded...)},
		{"compact", func(fsys vfs.FS) error {
			_, err := compaction.Run(ctx, "ix", compaction.Options{MemoryBytes: 1, FS: fsys})
			return err
		}, first},
	} {
		t.Run(work.name, func(t *testing.T) {
			failed, truncated := 0, 0
			for n, missed := 0, false; !missed; n += every {
				for _, part := range []float64{0, 0.6} {
					fsys := &truncatingFS{FS: base.CrashClone(vfs.CrashCloneCfg{}), n: n, part: part}
					err := work.do(fsys)
					if missed = fsys.target == ""; missed {
						must(t, err)
						break
					}
					truncated++
					want := work.want
					if err != nil {
						failed++
						want = first
					}
					x, openErr := index.Open("ix", &index.Options{FS: fsys.FS, MustExist: true, FilterBytes: -1})
					if openErr != nil {
						t.Fatalf("%s truncated to %v, error %v: %v", fsys.target, part, err, openErr)
					}
					got := contentsOf(t, x)
					for i, w := range want {
						if d := fmt.Sprintf("%q %v", w.Key, w.Fingerprint); got[uint64(i+1)] != d {
							t.Fatalf("%s truncated to %v, error %v: document %d is %s, want %s", fsys.target, part, err, i+1, got[uint64(i+1)], d)
						}
					}
					if len(got) != len(want) {
						t.Errorf("%s truncated to %v, error %v: %d documents, want %d", fsys.target, part, err, len(got), len(want))
					}
					must(t, x.Close())
				}
			}
			t.Logf("%d truncations, %d errors", truncated, failed)
			if failed == 0 {
				t.Error("no truncation was an error")
			}
		})
	}
}

// TestResultsAreDurable stops the machine when an operation has returned and after each rename.
// Unsynced bytes and unsynced directory entries are lost.
func TestResultsAreDurable(t *testing.T) {
	ctx := context.Background()
	r := rand.New(rand.NewPCG(testenv.Seed(t), 6))
	docs := randomDocuments(r, 200)
	for _, work := range []struct {
		name   string
		before bool // an index exists before
		do     func(fsys vfs.FS) error
		dir    string
	}{
		{"create", false, func(fsys vfs.FS) error {
			x, err := index.Open("a/b/ix", &index.Options{FS: fsys})
			if err != nil {
				return err
			}
			return errors.Join(x.Add(ctx, slices.Clone(docs)...), x.Close())
		}, "a/b/ix"},
		{"load", false, func(fsys vfs.FS) error {
			_, err := compaction.Load(ctx, "a/b/ix", allOf(docs), compaction.LoadOptions{Index: index.Options{FS: fsys}})
			return err
		}, "a/b/ix"},
		{"compact", true, func(fsys vfs.FS) error {
			_, err := compaction.Run(ctx, "ix", compaction.Options{FS: fsys})
			return err
		}, "ix"},
		{"checkpoint", true, func(fsys vfs.FS) error {
			x, err := index.Open("ix", &index.Options{FS: fsys, MustExist: true})
			if err != nil {
				return err
			}
			return errors.Join(x.Checkpoint(ctx, "a/b/copy"), x.Close())
		}, "a/b/copy"},
	} {
		t.Run(work.name, func(t *testing.T) {
			mem := crashfs.New()
			if work.before {
				x, err := index.Open("ix", &index.Options{FS: mem})
				must(t, err)
				must(t, errors.Join(x.Add(ctx, slices.Clone(docs)...), x.Close()))
			}
			var mu sync.Mutex // of clones and renamed: Pebble writes in the background
			var clones []*crashfs.FS
			renamed := false
			fsys := hookFS(mem, func(op errorfs.Op) error {
				mu.Lock()
				defer mu.Unlock()
				if renamed { // The operation before this one was a rename, and has been made.
					clones = append(clones, mem.CrashClone(vfs.CrashCloneCfg{}))
				}
				renamed = op.Kind == errorfs.OpRename
				return nil
			})
			must(t, work.do(fsys))
			clones = append(clones, mem.CrashClone(vfs.CrashCloneCfg{}))
			for i, clone := range clones {
				dir, last := work.dir, i == len(clones)-1
				if work.before && !last && work.name == "checkpoint" {
					dir = "ix"
				}
				x, err := index.Open(dir, &index.Options{FS: clone, MustExist: true})
				if err != nil && !last && !work.before {
					continue // It did not exist before.
				}
				if err != nil {
					t.Fatalf("crash %d of %d: %v", i+1, len(clones), err)
				}
				if got := x.Stats().Documents; got != uint64(len(docs)) && (last || work.before) {
					t.Errorf("crash %d of %d: %d documents, want %d", i+1, len(clones), got, len(docs))
				} else if got == uint64(len(docs)) {
					contentsOf(t, x)
					expectNear(t, x, docs)
				}
				must(t, x.Close())
			}
			t.Logf("%d crashes", len(clones))
		})
	}
}

// TestRecrawlHasOneMatch replaces documents by others within k of the same query, over and over, while
// compactions freeze and switch. A query must always find exactly one of the two versions.
func TestRecrawlHasOneMatch(t *testing.T) {
	long := time.Duration(testenv.Number(1, 2, 6, 30)) * time.Second
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute+long)
	defer cancel()
	// The delay keeps the compaction longer between its steps.
	fsys := hookFS(vfs.NewMem(), func(op errorfs.Op) error {
		if isTemporary(op.Path) || op.Kind == errorfs.OpLink {
			time.Sleep(50 * time.Microsecond)
		}
		return nil
	})
	x, err := index.Open("ix", &index.Options{FS: fsys, Durability: index.NoSync, MaxDistance: 3})
	must(t, err)
	defer x.Close()
	const pages = 16
	r := rand.New(rand.NewPCG(testenv.Seed(t), 7))
	queries := make([]fingerprint.Fingerprint, pages)
	for i := range queries {
		queries[i] = fingerprint.Fingerprint(r.Uint64())
	}
	// A batch has the next version of each page after many other documents, so that its steps take long.
	batch := func(n int) []index.Document {
		docs := randomDocuments(r, 300)
		for i := range docs {
			docs[i].Key = fmt.Sprintf("other %d", i)
		}
		for i, q := range queries {
			docs = append(docs, index.Document{Key: fmt.Sprint(i), Fingerprint: q ^ 1<<(n%2) ^ 1<<(3+n%5)})
		}
		return docs
	}
	must(t, x.Add(ctx, batch(0)...))
	var group sync.WaitGroup
	var asked, recrawls, compactions atomic.Int64
	loop := func(do func(n int) error) {
		group.Go(func() {
			for n := 1; ctx.Err() == nil; n++ {
				if err := do(n); err != nil && ctx.Err() == nil {
					t.Error(err)
					cancel()
				}
			}
		})
	}
	loop(func(n int) error {
		recrawls.Add(1)
		if n%2 == 0 {
			return x.Add(ctx, batch(n)...)
		}
		_, err := x.CheckAndAddBatch(ctx, batch(n))
		return err
	})
	loop(func(n int) error {
		compactions.Add(1)
		_, err := compaction.Compact(ctx, x, compaction.Options{})
		return err
	})
	for worker := range 2 {
		loop(func(n int) error {
			asked.Add(1)
			i := (n*7 + worker) % pages
			matches, err := x.Query(ctx, index.Query{Signature: fingerprint.Signature{Fingerprint: queries[i]}})
			if err == nil && (len(matches) != 1 || matches[0].Document.Key != fmt.Sprint(i)) {
				err = fmt.Errorf("query %d of page %d has %d matches: %v", n, i, len(matches), matches)
			}
			return err
		})
	}
	enough := func() bool { return asked.Load() >= 500 && recrawls.Load() >= 10 && compactions.Load() >= 4 }
	for begun := time.Now(); ctx.Err() == nil && (time.Since(begun) < long || !enough()); {
		time.Sleep(10 * time.Millisecond)
	}
	cancel()
	group.Wait()
	t.Logf("%d queries, %d recrawls, %d compactions", asked.Load(), recrawls.Load(), compactions.Load())
	if !enough() {
		t.Errorf("only %d queries, %d recrawls and %d compactions", asked.Load(), recrawls.Load(), compactions.Load())
	}
}

// TestLoadCanceledBetweenDocuments cancels a load while its documents are read. The next document ends it.
func TestLoadCanceledBetweenDocuments(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	read := 0
	_, err := compaction.Load(ctx, "ix", func(yield func(index.Document, error) bool) {
		for read = 1; yield(index.Document{Fingerprint: fingerprint.Fingerprint(read)}, nil) && read < 10_000; read++ {
			if read == 10 {
				cancel()
			}
		}
	}, compaction.LoadOptions{Index: index.Options{FS: vfs.NewMem()}})
	if !errors.Is(err, context.Canceled) || read != 11 {
		t.Errorf("error %v after %d documents, want it after 11", err, read)
	}
}
