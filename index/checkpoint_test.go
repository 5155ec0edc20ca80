package index

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
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

// TestCheckpoint copies a packed index with live entries to a new directory, and a
// read-only index to an empty directory.
func TestCheckpoint(t *testing.T) {
	for _, readOnly := range []bool{false, true} {
		source, target := filepath.Join(t.TempDir(), "ix"), filepath.Join(t.TempDir(), "a", "copy")
		must(t, os.CopyFS(source, os.DirFS("../testdata/index-format")))
		if readOnly { // one document is only in the log
			x := openAt(t, source, Options{})
			must(t, x.Add(t.Context(), Document{Key: "late", Fingerprint: 99}), x.Close())
			must(t, os.MkdirAll(target, 0o755))
		}
		x := openAt(t, source, Options{ReadOnly: readOnly, MustExist: true})
		must(t, x.Checkpoint(t.Context(), target))
		if _, err := os.Stat(target + ".incomplete"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the working directory remains: %v", err)
		}
		y := openAt(t, target, Options{MustExist: true})
		if got, want := documentsOf(t, y), documentsOf(t, x); !maps.Equal(got, want) {
			t.Errorf("read only %v: %v, want %v", readOnly, got, want)
		}
		if a, b := x.Stats(), y.Stats(); a.Packed == 0 || a.Packed != b.Packed ||
			a.NextID != b.NextID || a.Plan != b.Plan || a.Analyzer != b.Analyzer {
			t.Errorf("%+v, want %+v", b, a)
		}
		must(t, y.Add(t.Context(), Document{Key: "more", Fingerprint: 1}))
	}
}

// TestCheckpointRefuses tests that Checkpoint refuses and does not change a target that is not an
// empty directory, is inside the directory of the index, or has the working directory of an earlier
// checkpoint next to it.
func TestCheckpointRefuses(t *testing.T) {
	for _, c := range []struct{ file, target string }{
		{"full/mine", "full"}, {"full/mine", "full/mine"}, {"copy/incoming/mine", "copy"},
		{"copy.incomplete/mine", "copy"}, {"mine", "index"}, {"mine", "index/in/it"},
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
		if err := x.Checkpoint(t.Context(), c.target); !errors.Is(err, fs.ErrExist) &&
			(err == nil || c.target != c.file) {
			t.Errorf("%s with the file %s: %v", c.target, c.file, err)
		}
		if after := list(); after != before {
			t.Errorf("%s with the file %s: the files were %s and are %s", c.target, c.file,
				before, after)
		}
	}
}

// underCopies calls f before each operation that changes files below a directory.
func underCopies(fsys vfs.FS, f func() error) vfs.FS {
	return Injecting(fsys, func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() == errorfs.OpIsWrite && strings.HasPrefix(op.Path, "copies") {
			return f()
		}
		return nil
	})
}

// TestCheckpointFailsAtEveryWrite makes each write to the copy fail in turn. The index must
// continue to work, and nothing of the copy may remain.
func TestCheckpointFailsAtEveryWrite(t *testing.T) {
	mem := vfs.NewMem()
	seen, failAt := 0, 0
	x := openAt(t, "ix", Options{FS: underCopies(mem, func() error {
		if seen++; seen == failAt {
			return errorfs.ErrInjected
		}
		return nil
	})})
	for seen >= failAt {
		seen, failAt = 0, failAt+1
		must(t, x.Add(t.Context(), Document{Key: fmt.Sprint(failAt),
			Fingerprint: fingerprint.Fingerprint(failAt)}))
		err := x.Checkpoint(t.Context(), "copies/c")
		if seen < failAt {
			must(t, err)
			break
		}
		if _, left := mem.Stat("copies"); !errors.Is(err, errorfs.ErrInjected) ||
			!errors.Is(left, fs.ErrNotExist) {
			t.Fatalf("operation %d fails: %v; the copy: %v", failAt, err, left)
		}
	}
	t.Logf("%d operations", failAt-1)
	copied := openAt(t, "copies/c", Options{FS: mem, MustExist: true})
	if n := len(documentsOf(t, copied)); n != failAt || n < 20 {
		t.Errorf("the checkpoint has %d documents, want %d", n, failAt)
	}
}

// TestCheckpointCrash simulates a crash before each write to the copy of an index, which is open
// for writing or read-only. None, some or all of the unsynced data survives. The copy must be
// complete or not be an index. After the call, it must be complete.
func TestCheckpointCrash(t *testing.T) {
	for _, readOnly := range []bool{false, true} {
		mem := crashfs.New()
		var crashed []*crashfs.FS
		rng := rand.New(rand.NewPCG(1, 1))
		fsys := underCopies(mem, func() error {
			for _, percent := range []int{0, 50, 100} {
				crashed = append(crashed,
					mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rng}))
			}
			return nil
		})
		x := openAt(t, "ix", Options{FS: fsys, Durability: NoSync})
		must(t, x.Add(t.Context(), Strangers(2)...))
		if readOnly {
			must(t, x.Close())
			x = openAt(t, "ix", Options{FS: fsys, ReadOnly: true})
		}
		must(t, x.Checkpoint(t.Context(), "copies/c"))
		for i, clone := range append(crashed, mem.CrashClone(vfs.CrashCloneCfg{})) {
			y, err := Open("copies/c", &Options{FS: clone, MustExist: true})
			documents := uint64(2)
			if err == nil {
				documents = y.Stats().Documents
				err = y.Close()
			} else if i < len(crashed) && (errors.Is(err, fs.ErrNotExist) ||
				errors.Is(err, ErrNotIndex)) {
				err = nil
			}
			if err != nil || documents != 2 {
				t.Errorf("read-only %v, crash %d of %d: %d documents, %v", readOnly, i,
					len(crashed), documents, err)
			}
		}
	}
}

// TestCheckpointCancelledWhileCopying tests that Checkpoint stops when the context ends, on a file
// system without links, where it copies tables.
func TestCheckpointCancelledWhileCopying(t *testing.T) {
	mem := vfs.NewMem()
	_, err := vfs.Clone(vfs.Default, mem, "../testdata/index-format", "ix")
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	x := openAt(t, "ix", Options{FS: Injecting(mem, func(op errorfs.Op) error {
		if op.Kind == errorfs.OpLink {
			return fs.ErrPermission
		}
		if op.Kind == errorfs.OpCreate && strings.HasPrefix(op.Path, "copy") &&
			strings.HasSuffix(op.Path, ".sst") {
			cancel()
		}
		return nil
	})})
	if err := x.Checkpoint(ctx, "copy"); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if _, err := mem.Stat("copy"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the copy remains: %v", err)
	}
	must(t, x.Checkpoint(t.Context(), "copy"))
	if a, b := documentsOf(t, x), documentsOf(t, openAt(t, "copy", Options{FS: mem})); !maps.Equal(
		a, b) {
		t.Errorf("%v, want %v", b, a)
	}
}
