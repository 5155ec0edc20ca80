package index

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/internal/testing/crashfs"
)

func documentsOf(t testing.TB, x *Index) map[string]Document {
	t.Helper()
	docs := make(map[string]Document)
	for d, err := range x.Documents(context.Background()) {
		must(t, err)
		docs[d.Key] = d
	}
	return docs
}

// TestCheckpointOfEveryKind makes checkpoints of a packed index with live entries and of a
// read-only index. They are in memory and on disk, and the target is a new directory or an empty
// one.
func TestCheckpointOfEveryKind(t *testing.T) {
	ctx := context.Background()
	for _, readOnly := range []bool{false, true} {
		source, target := filepath.Join(t.TempDir(), "ix"),
			filepath.Join(t.TempDir(), "a", "b", "copy")
		must(t, os.CopyFS(source, os.DirFS("../testdata/index-format")))
		if readOnly { // what the log has and no table
			x, err := Open(source, nil)
			if err == nil {
				err = errors.Join(x.Add(ctx, Document{Key: "late", Fingerprint: 99}), x.Close())
			}
			must(t, err)
			must(t, os.MkdirAll(target, 0o755))
		}
		x := openAt(t, source, Options{ReadOnly: readOnly, MustExist: true})
		want := documentsOf(t, x)
		must(t, x.Checkpoint(ctx, target))
		if _, err := os.Stat(target + ".incomplete"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the working directory is left: %v", err)
		}
		y := openAt(t, target, Options{MustExist: true})
		got := documentsOf(t, y)
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("read only %v: %v, want %v", readOnly, got, want)
		}
		if a, b := x.Stats(), y.Stats(); a.Packed == 0 || a.Packed != b.Packed ||
			a.NextID != b.NextID || a.Plan != b.Plan || a.Analyzer != b.Analyzer {
			t.Errorf("%+v, want %+v", b, a)
		}
		must(t, y.Add(ctx, Document{Key: "more", Fingerprint: 1}))
	}
}

// TestCheckpointRefuses tests that a target is refused and unchanged if it is not an empty
// directory, if it is in the directory of the index, or if another checkpoint may have left a
// working directory.
func TestCheckpointRefuses(t *testing.T) {
	for _, c := range []struct {
		file, target string
		want         error
	}{
		{"full/mine", "full", fs.ErrExist},
		{"full/mine", "full/mine", nil}, // any error
		{"copy/incoming/mine", "copy", fs.ErrExist},
		{"copy.incomplete/mine", "copy", fs.ErrExist},
		{"mine", "index", fs.ErrExist},
		{"mine", "index/in/it", fs.ErrExist},
	} {
		mem := vfs.NewMem()
		x := openMem(t, Options{FS: mem})
		must(t, mem.MkdirAll(mem.PathDir(c.file), 0o755))
		f, err := mem.Create(c.file, vfs.WriteCategoryUnspecified)
		must(t, err, f.Close())
		list := func() string {
			names, err := mem.List("")
			inside, insideErr := mem.List(mem.PathDir(c.file))
			slices.Sort(names)
			return fmt.Sprint(names, err, inside, insideErr)
		}
		before := list()
		if err := x.Checkpoint(t.Context(), c.target); err == nil ||
			c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s with the file %s: %v", c.target, c.file, err)
		}
		if after := list(); after != before {
			t.Errorf("%s with the file %s: the files were %s and are %s", c.target, c.file,
				before, after)
		}
	}
}

// underCopies calls f for each operation that changes files below a directory.
func underCopies(f func() error) errorfs.Injector {
	return errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() == errorfs.OpIsWrite && strings.HasPrefix(op.Path, "copies") {
			return f()
		}
		return nil
	})
}

// TestCheckpointFailsAtEveryWrite lets each write to the copy fail in turn, once and permanently.
// The index must continue to work. If the copy is incomplete, nothing may remain of it.
func TestCheckpointFailsAtEveryWrite(t *testing.T) {
	ctx := context.Background()
	mem := vfs.NewMem()
	seen, failAt := 0, -1
	fsys := errorfs.Wrap(mem, underCopies(func() error {
		if seen++; seen == failAt {
			return errorfs.ErrInjected
		}
		return nil
	}))
	x := openAt(t, "ix", Options{FS: fsys})
	must(t, x.Add(ctx, Document{Key: "a", Fingerprint: 1}))
	for failAt = 1; ; failAt++ {
		seen = 0
		err := x.Checkpoint(ctx, "copies/c")
		if seen < failAt {
			must(t, err)
			break
		}
		if !errors.Is(err, errorfs.ErrInjected) {
			t.Errorf("operation %d fails, and the checkpoint says %v", failAt, err)
		}
		if _, err := mem.Stat("copies"); !errors.Is(err, fs.ErrNotExist) {
			names, _ := mem.List("copies/c")
			t.Errorf("operation %d failed, but files are left: %v, %v", failAt, err, names)
			must(t, mem.RemoveAll("copies"))
		}
		if err := x.Add(ctx, Document{Key: fmt.Sprint(failAt),
			Fingerprint: fingerprint.Fingerprint(failAt)}); err != nil {
			t.Fatalf("after operation %d failed: %v", failAt, err)
		}
	}
	t.Logf("%d operations", failAt-1)
	if failAt < 20 {
		t.Errorf("only %d operations were seen", failAt-1)
	}
	if docs := documentsOf(t, openAt(t, "copies/c", Options{FS: mem, MustExist: true})); len(
		docs) != failAt {
		t.Errorf("the checkpoint has %d documents, want %d", len(docs), failAt)
	}
}

// TestCheckpointCutShort stops the machine before each write to the copy, of an index that is open
// for writing and of one that is open for reading. None, some and all of the unsynced data
// survives. The copy must then be complete, or not an index. After the call it must be complete.
func TestCheckpointCutShort(t *testing.T) {
	ctx := context.Background()
	for _, readOnly := range []bool{false, true} {
		mem := crashfs.New()
		var crashed []*crashfs.FS
		rng := rand.New(rand.NewPCG(1, 1))
		fsys := errorfs.Wrap(mem, underCopies(func() error {
			for _, percent := range []int{0, 50, 100} {
				crashed = append(crashed,
					mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rng}))
			}
			return nil
		}))
		x := openAt(t, "ix", Options{FS: fsys, Durability: NoSync})
		must(t, x.Add(ctx, Document{Key: "a", Fingerprint: 1}, Document{Key: "b", Fingerprint: 2}))
		if readOnly {
			must(t, x.Close())
			x = openAt(t, "ix", Options{FS: fsys, ReadOnly: true})
		}
		must(t, x.Checkpoint(ctx, "copies/c"))
		for i, clone := range append(crashed, mem.CrashClone(vfs.CrashCloneCfg{})) {
			y, err := Open("copies/c", &Options{FS: clone, MustExist: true})
			switch {
			case err == nil:
				if docs := documentsOf(t, y); len(docs) != 2 {
					t.Errorf("read-only %v, crash %d: the checkpoint opens, with %d documents",
						readOnly, i, len(docs))
				}
				y.Close()
			case i == len(crashed) || !errors.Is(err, fs.ErrNotExist) &&
				!errors.Is(err, ErrNotIndex):
				t.Errorf("read-only %v, crash %d of %d: %v", readOnly, i, len(crashed), err)
			}
		}
	}
}

// noLinks is a file system without links, which returns a permission error for them.
type noLinks struct {
	vfs.FS
	atCreate func(name string)
}

func (n noLinks) Link(oldname, newname string) error { return fs.ErrPermission }

func (n noLinks) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if n.atCreate != nil {
		n.atCreate(name)
	}
	return n.FS.Create(name, category)
}

// TestCheckpointCancelledWhileCopying tests a file system without links, on which tables are
// copied. Copying must stop when the context ends.
func TestCheckpointCancelledWhileCopying(t *testing.T) {
	mem := vfs.NewMem()
	if ok, err := vfs.Clone(vfs.Default, mem, "../testdata/index-format", "ix"); !ok || err != nil {
		t.Fatal(ok, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	x := openAt(t, "ix", Options{FS: noLinks{mem, func(name string) {
		if strings.HasPrefix(name, "copy") && strings.HasSuffix(name, ".sst") {
			cancel()
		}
	}}})
	if err := x.Checkpoint(ctx, "copy"); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if _, err := mem.Stat("copy"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("something is left: %v", err)
	}
	must(t, x.Checkpoint(context.Background(), "copy"))
	if a, b := documentsOf(t, x),
		documentsOf(t, openAt(t, "copy", Options{FS: mem})); fmt.Sprint(a) != fmt.Sprint(b) {
		t.Errorf("%v, want %v", b, a)
	}
}
