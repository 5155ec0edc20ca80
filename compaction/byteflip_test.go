package compaction_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/testseed"
)

// flipped is an index of which everything is known, as bytes.
type flipped struct {
	files map[string][]byte
	opts  index.Options
	docs  []index.Document
	next  uint64
	plan  string
}

// flippedDocuments are in clusters, bare and not.
func flippedDocuments(rng *rand.Rand, n int, prefix string) []index.Document {
	docs := make([]index.Document, n)
	centre := uint64(0)
	for i := range docs {
		if i%5 == 0 {
			centre = rng.Uint64()
		}
		docs[i].Fingerprint = fingerprint.Fingerprint(centre ^ 1<<rng.IntN(64))
		switch rng.IntN(4) {
		case 0:
			docs[i].Key = fmt.Sprint(prefix, i)
		case 1:
			docs[i].Key, docs[i].Scope = fmt.Sprint(prefix, i), "scope"
		case 2:
			docs[i].Key, docs[i].Shingle = fmt.Sprint(prefix, i), fingerprint.Fingerprint(rng.Uint64())
		}
	}
	return docs
}

// newFlipped makes one that has packed tables and filters, what was written since in
// tables of Pebble's and in the log, deletions among both, and everything in few bytes.
func newFlipped(t *testing.T, rng *rand.Rand) *flipped {
	t.Helper()
	ctx, fsys := context.Background(), vfs.NewMem()
	f := &flipped{opts: index.Options{CacheBytes: 1 << 20, FilterBytes: 32 << 10, MustExist: true}}
	session := func(mustExist bool, change func(x *index.Index) error) {
		opts := f.opts
		opts.FS, opts.MustExist = fsys, mustExist
		x, err := index.Open("ix", &opts)
		if err == nil {
			err = errors.Join(change(x), x.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	add := func(docs []index.Document) func(*index.Index) error {
		return func(x *index.Index) error {
			for part := range slices.Chunk(docs, 7) {
				if err := x.Add(ctx, part...); err != nil {
					return err
				}
			}
			_, err := x.Delete(ctx, docs[1].Key, docs[2].Key, docs[3].Key)
			return err
		}
	}
	session(false, add(flippedDocuments(rng, 400, "packed ")))
	if _, err := compaction.Run(ctx, "ix", compaction.Options{FS: fsys, FilterBytes: f.opts.FilterBytes}); err != nil {
		t.Fatal(err)
	}
	session(true, add(flippedDocuments(rng, 60, "flushed ")))
	session(true, add(flippedDocuments(rng, 60, "logged "))) // what the log had is in tables now
	session(true, func(x *index.Index) error { return nil })
	session(true, func(x *index.Index) error {
		for _, d := range flippedDocuments(rng, 30, "late ") {
			if err := x.Add(ctx, d); err != nil {
				return err
			}
		}
		for d, err := range x.Documents(ctx) {
			if err != nil {
				return err
			}
			f.docs = append(f.docs, d)
		}
		f.next, f.plan = x.Stats().NextID, x.Stats().Plan
		return nil
	})
	f.files = filesOf(t, fsys, "ix")
	return f
}

func filesOf(t testing.TB, fsys vfs.FS, dir string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	names, err := fsys.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		file, err := fsys.Open(fsys.PathJoin(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(file)
		if err := errors.Join(err, file.Close()); err != nil {
			t.Fatal(err)
		}
		files[name] = data
	}
	return files
}

// with returns a file system that holds the index, with some files different.
func (f *flipped) with(t testing.TB, changed map[string][]byte) *vfs.MemFS {
	t.Helper()
	fsys := vfs.NewMem()
	if err := fsys.MkdirAll("ix", 0o755); err != nil {
		t.Fatal(err)
	}
	for name, data := range f.files {
		if other, is := changed[name]; is {
			data = other
		}
		file, err := fsys.Create("ix/"+name, vfs.WriteCategoryUnspecified)
		if err == nil {
			_, err = file.Write(slices.Clone(data)) // under the race detector, it is spoilt then
		}
		if err := errors.Join(err, file.Close()); err != nil {
			t.Fatal(err)
		}
	}
	return fsys
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
func (f *flipped) outcome(fsys vfs.FS, readOnly bool, queries []fingerprint.Fingerprint) (string, error) {
	opts := f.opts
	opts.FS, opts.ReadOnly = fsys, readOnly
	x, err := index.Open("ix", &opts)
	if err != nil {
		if !errors.Is(err, index.ErrCorrupt) && !errors.Is(err, index.ErrNotIndex) && !errors.Is(err, index.ErrVersion) && !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("open says what no one can act on: %w", err)
		}
		return "refused", nil
	}
	defer x.Close()
	errs := f.compare(x, queries)
	for p := range x.Verify(context.Background()) {
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

// compare compares all documents and some queries with what they should be.
func (f *flipped) compare(x *index.Index, queries []fingerprint.Fingerprint) (errs []error) {
	ctx := context.Background()
	if s := x.Stats(); s.NextID != f.next || s.Documents != uint64(len(f.docs)) {
		errs = append(errs, fmt.Errorf("%d documents, next ID %d; not %d, %d", s.Documents, s.NextID, len(f.docs), f.next))
	}
	n := 0
	for d, err := range x.Documents(ctx) {
		if err != nil {
			errs = append(errs, err)
			n = len(f.docs)
			break
		}
		if n >= len(f.docs) || d != f.docs[n] {
			errs = append(errs, fmt.Errorf("document %+v is not what it was", d))
			break
		}
		n++
	}
	if n < len(f.docs) {
		errs = append(errs, fmt.Errorf("%d documents of %d", n, len(f.docs)))
	}
	for _, q := range queries {
		if len(errs) > 1 {
			break // a damaged block that is read again takes Pebble long
		}
		got, err := x.Query(ctx, q)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if want := f.answer(q); !slices.Equal(got, want) {
			errs = append(errs, fmt.Errorf("query %v: %v, not %v", q, got, want))
		}
	}
	return errs
}

func (f *flipped) answer(q fingerprint.Fingerprint) (want []index.Match) {
	for _, d := range f.docs {
		if distance := q.Distance(d.Fingerprint); d.Scope == "" && distance <= 3 {
			want = append(want, index.Match{Document: d, Distance: distance})
		}
	}
	slices.SortFunc(want, func(a, b index.Match) int {
		return cmp.Or(cmp.Compare(a.Distance, b.Distance), cmp.Compare(a.ID, b.ID))
	})
	return want
}

func flips() int {
	switch {
	case testing.Short():
		return 25
	case atLength():
		return 50_000
	case os.Getenv("NEARDUP_CI") != "":
		return 2100
	}
	return 150
}

// TestEveryFlippedByteIsHarmlessOrFound: one byte of any file of an index is another one.
// Open refuses the index, or Verify finds it, or everything is as it was.
func TestEveryFlippedByteIsHarmlessOrFound(t *testing.T) {
	start := testseed.Of(t)
	rng := rand.New(rand.NewPCG(start, 0))
	f := newFlipped(t, rng)
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(f.files)), func(name string) bool { return len(f.files[name]) == 0 })
	total := 0
	for _, name := range names {
		total += len(f.files[name])
	}
	var queries []fingerprint.Fingerprint
	for range 25 {
		queries = append(queries, f.docs[rng.IntN(len(f.docs))].Fingerprint^1<<rng.IntN(64))
	}
	if outcome, err := f.outcome(f.with(t, nil), false, queries); outcome != "harmless" || err != nil {
		t.Fatalf("with no byte flipped: %s, %v", outcome, err)
	}
	counts := map[string]int{}
	for range flips() {
		// Half of them anywhere in any file, half anywhere in all bytes.
		name, at := names[rng.IntN(len(names))], 0
		if rng.IntN(2) == 0 {
			at = rng.IntN(total)
			for _, name = range names {
				if at < len(f.files[name]) {
					break
				}
				at -= len(f.files[name])
			}
		} else {
			at = rng.IntN(len(f.files[name]))
		}
		change := byte(1 + rng.IntN(255))
		data := slices.Clone(f.files[name])
		data[at] ^= change
		outcome, err := f.outcome(f.with(t, map[string][]byte{name: data}), rng.IntN(2) == 0, queries)
		if err != nil {
			t.Errorf("seed %d: %s, byte %d of %d ^ %#02x: %s: %v", start, name, at, len(data), change, outcome, err)
		}
		counts[kindOf(name)+" "+outcome]++
	}
	for _, what := range slices.Sorted(maps.Keys(counts)) {
		t.Logf("%-20s %d", what, counts[what])
	}
	t.Logf("seed %d; %d files of %d bytes", start, len(names), total)
}

// TestDamagedBlockIsAnErrorAndNoPanic: Pebble ends the process over a block with a wrong
// checksum unless it is told not to. Who reads it gets an error that names the file.
func TestDamagedBlockIsAnErrorAndNoPanic(t *testing.T) {
	f := newFlipped(t, rand.New(rand.NewPCG(testseed.Of(t), 1)))
	for i, name := range slices.Sorted(maps.Keys(f.files)) {
		data, readOnly := f.files[name], i%2 == 0
		if !strings.HasSuffix(name, ".sst") || testing.Short() && i > 2 {
			continue
		}
		broken := slices.Clone(data)
		broken[10] ^= 0xff
		opts := f.opts
		opts.FS, opts.ReadOnly = f.with(t, map[string][]byte{name: broken}), readOnly
		x, err := index.Open("ix", &opts)
		var errs []error
		if err != nil {
			errs = append(errs, err)
		} else {
			errs = f.compare(x, []fingerprint.Fingerprint{1, 1 << 40})
			for p := range x.Verify(context.Background()) {
				errs = append(errs, p.Err)
			}
			x.Close()
		}
		if text := fmt.Sprint(errs); len(errs) == 0 || !errors.Is(errors.Join(errs...), index.ErrCorrupt) || !strings.Contains(text, name) {
			t.Errorf("%s, read only %v: %v", name, readOnly, errs)
		}
	}
}
