package store

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/neardup/neardup/internal/fault"
	"github.com/neardup/neardup/internal/testing/crashfs"
)

// contents reads every file of a directory. It lists directories as empty files.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if files[path] = ""; err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		files[path] = string(content)
		return err
	}))
	return files
}

// everyWay returns options for each way to open a directory.
func everyWay() map[string]Options {
	return map[string]Options{
		"create":    {Create: &Meta{Plan: "plan"}},
		"open":      {},
		"read-only": {ReadOnly: true},
	}
}

// TestForeignDirectoryUnchanged tests that Open returns an error for a directory that is not an
// index, and does not change the directory.
func TestForeignDirectoryUnchanged(t *testing.T) {
	write := func(names ...string) func(dir string) {
		return func(dir string) {
			must(t, os.MkdirAll(filepath.Join(dir, names[0], ".."), 0o755))
			for _, name := range names {
				must(t, os.WriteFile(filepath.Join(dir, name), []byte("MANIFEST-000001\n"), 0o644))
			}
		}
	}
	database := func(c *pebble.Comparer) func(dir string) {
		return func(dir string) {
			db, err := pebble.Open(dir, &pebble.Options{Logger: pebbleLogger{}, Comparer: c})
			must(t, err)
			must(t, db.Set([]byte("key"), []byte("value"), pebble.Sync), db.Close())
		}
	}
	later := *comparer
	later.Name = "neardup.2"
	for what, c := range map[string]struct {
		make func(dir string)
		want error
	}{
		"a file":            {write(""), fault.ErrNotIndex},
		"a folder of texts": {write("notes.txt"), fault.ErrNotIndex},
		"a LevelDB": {write("LOCK", "CURRENT", "MANIFEST-000001"),
			fault.ErrNotIndex},
		"a Pebble database":             {database(nil), fault.ErrNotIndex},
		"a database of a later version": {database(&later), fault.ErrVersion},
		"an index in a later format of Pebble": {func(dir string) {
			makeStore(t, dir)
			markers, err := filepath.Glob(filepath.Join(dir, "marker.format-version.*"))
			must(t, err)
			newer := fmt.Sprintf("marker.format-version.000999.%03d", pebbleFormat+1)
			must(t, os.Rename(markers[0], filepath.Join(dir, newer)))
		}, fault.ErrVersion},
	} {
		dir := filepath.Join(t.TempDir(), "index")
		c.make(dir)
		before := contents(t, dir)
		for way, opts := range everyWay() {
			if _, err := Open(dir, opts); !errors.Is(err, c.want) ||
				!strings.Contains(err.Error(), dir) {
				t.Errorf("%s, %s: %v", what, way, err)
			}
		}
		if after := contents(t, dir); !maps.Equal(after, before) {
			t.Errorf("%s: files were\n%q\nand are\n%q", what, before, after)
		}
	}
}

func makeStore(t *testing.T, dir string) {
	t.Helper()
	s, err := Open(dir, Options{Create: &Meta{Plan: "plan", Analyzer: "analyzer"}})
	must(t, err)
	must(t, s.Close())
}

// TestLockedByThisProcess opens a store twice, by each name that its directory has. POSIX locks do
// not hold within a process, and the first Close of a file releases them.
func TestLockedByThisProcess(t *testing.T) {
	parent := t.TempDir()
	t.Chdir(parent)
	dir := filepath.Join(parent, "index")
	makeStore(t, dir)
	must(t, os.Mkdir("x", 0o755))
	names := []string{dir, dir + string(filepath.Separator), "index", "./index",
		filepath.Join(parent, "x", "..") + "/index"}
	if err := os.Symlink(dir, "link"); err == nil {
		names = append(names, filepath.Join(parent, "link"))
	}
	for _, first := range names {
		s, err := Open(first, Options{})
		must(t, err)
		for _, second := range names {
			for way, opts := range everyWay() {
				if _, err := Open(second, opts); !errors.Is(err, fault.ErrLocked) {
					t.Fatalf("open as %s, then %s as %s: %v", first, way, second, err)
				}
			}
		}
		must(t, s.Close())
	}
}

// crashesOf makes a call, and returns the files that a crash would leave before each operation that
// changes the disk.
func crashesOf(mem *crashfs.FS, call func(vfs.FS)) (clones []*crashfs.FS) {
	var mu sync.Mutex
	call(errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			mu.Lock()
			defer mu.Unlock()
			clones = append(clones, crash(mem))
		}
		return nil
	})))
	return clones
}

// TestCreationInterrupted interrupts the creation of a store before every operation that changes
// the disk. The result must be no store or a complete store, and the next Open must complete the
// creation. Once Open has returned, the store must be durable.
func TestCreationInterrupted(t *testing.T) {
	for _, dir := range []string{"store", "a/b/store"} {
		create := Options{Create: &Meta{Plan: "plan"}}
		complete := func(fsys *crashfs.FS, opts Options) error {
			opts.FS = fsys
			s, err := Open(dir, opts)
			if err != nil {
				return err
			}
			if m := s.Meta(); m.Plan != "plan" || m.Counters != (Counters{NextID: 1}) {
				t.Errorf("%s: %+v, %+v", dir, m.Plan, m.Counters)
			}
			return s.Close()
		}
		mem := crashfs.New()
		clones := crashesOf(mem, func(fsys vfs.FS) {
			opts := create
			opts.FS = fsys
			s, err := Open(dir, opts)
			must(t, err, complete(crash(mem), Options{}), s.Close())
		})
		if len(clones) < 10 {
			t.Fatalf("%d operations", len(clones))
		}
		for i, clone := range clones {
			if err := complete(crash(clone), Options{}); err != nil &&
				!errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s, operation %d: %v", dir, i, err)
			}
			must(t, complete(clone, create))
		}
	}
}

// TestDirectoriesArePrivate tests that the directories of an index, a replacement and a
// checkpoint have mode 0700. So must the parents that are created.
func TestDirectoriesArePrivate(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there are no such modes")
	}
	root := t.TempDir()
	dir := filepath.Join(root, "made", "ix")
	s, err := Open(dir, Options{Create: &Meta{}})
	must(t, err)
	apply(t, s, true, func(b *Batch) { document(b, 1) })
	must(t, s.Checkpoint(t.Context(), filepath.Join(root, "copies", "1")))
	r, err := s.NewRewrite(1)
	must(t, err)
	for _, name := range []string{"made", "made/ix", "made/ix/incoming", "copies", "copies/1"} {
		info, err := os.Stat(filepath.Join(root, name))
		if must(t, err); info.Mode().Perm() != 0o700 {
			t.Errorf("%s has mode %v", name, info.Mode())
		}
	}
	must(t, r.Close(), s.Close())
}
