package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/neardup/neardup/internal/surgeon"
)

// contents reads every file of a directory.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		files[path] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// everyWay are the ways to open a directory.
func everyWay() map[string]Options {
	return map[string]Options{
		"to make":  {Create: &Header{Plan: "plan"}},
		"existing": {},
		"to read":  {ReadOnly: true},
	}
}

// TestForeignDirectoryIsLeftAlone: what is not an index is refused, and nothing in
// it changes by one byte.
func TestForeignDirectoryIsLeftAlone(t *testing.T) {
	write := func(t *testing.T, path, content string) {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	pebbleDB := func(t *testing.T, dir string, opts *pebble.Options) {
		db, err := pebble.Open(dir, opts)
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Set([]byte("key"), []byte("value"), pebble.Sync); err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for what, c := range map[string]struct {
		make func(t *testing.T, dir string)
		want error
	}{
		"a file": {func(t *testing.T, dir string) { write(t, dir, "text") }, ErrNotIndex},
		"a folder of texts": {func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "notes.txt"), "text")
		}, ErrNotIndex},
		"a LevelDB": {func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "LOCK"), "")
			write(t, filepath.Join(dir, "CURRENT"), "MANIFEST-000001\n")
			write(t, filepath.Join(dir, "MANIFEST-000001"), "?")
		}, ErrNotIndex},
		"a Pebble database": {func(t *testing.T, dir string) {
			pebbleDB(t, dir, &pebble.Options{Logger: pebbleLogger{}})
		}, ErrNotIndex},
		"a Pebble database of our future": {func(t *testing.T, dir string) {
			pebbleDB(t, dir, &pebble.Options{Logger: pebbleLogger{}, Merger: &pebble.Merger{Name: "neardup.posting.2", Merge: postingMerger.Merge}})
		}, ErrVersion},
	} {
		t.Run(what, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "index")
			c.make(t, dir)
			before := contents(t, dir)
			for way, opts := range everyWay() {
				s, err := Open(dir, opts)
				if !errors.Is(err, c.want) || s != nil {
					t.Errorf("%s: %v", way, err)
				} else if !strings.Contains(err.Error(), dir) {
					t.Errorf("%s: no path in %q", way, err)
				}
			}
			if after := contents(t, dir); !maps.Equal(after, before) {
				t.Errorf("files were\n%q\nand are\n%q", before, after)
			}
		})
	}
}

// TestNewerPebbleFormat renames the marker that holds the format number.
func TestNewerPebbleFormat(t *testing.T) {
	dir := t.TempDir()
	makeStore(t, dir)
	markers, err := filepath.Glob(filepath.Join(dir, "marker.format-version.*"))
	if err != nil || len(markers) != 1 {
		t.Fatal(markers, err)
	}
	newer := fmt.Sprintf("marker.format-version.000999.%03d", pebbleFormat+1)
	if err := os.Rename(markers[0], filepath.Join(dir, newer)); err != nil {
		t.Fatal(err)
	}
	before := contents(t, dir)
	for way, opts := range everyWay() {
		if _, err := Open(dir, opts); !errors.Is(err, ErrVersion) {
			t.Errorf("%s: %v", way, err)
		}
	}
	if !maps.Equal(contents(t, dir), before) {
		t.Error("files have changed")
	}
}

func makeStore(t *testing.T, dir string) {
	t.Helper()
	s, err := Open(dir, Options{Create: &Header{Plan: "plan", Analyzer: "analyzer"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestMissingDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none")
	empty := t.TempDir()
	for _, opts := range []Options{{}, {ReadOnly: true}, {ReadOnly: true, Create: &Header{}}} {
		for _, dir := range []string{dir, empty} {
			if _, err := Open(dir, opts); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s, %+v: %v", dir, opts, err)
			}
		}
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory was made: %v", err)
	}
	if files := contents(t, empty); len(files) != 0 {
		t.Errorf("files were made: %q", files)
	}
}

func TestHeaderStays(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	makeStore(t, dir)
	for way, opts := range everyWay() {
		opts.Create = &Header{Plan: "another", Analyzer: "another"}
		s, err := Open(dir, opts)
		if err != nil {
			t.Fatal(way, err)
		}
		if got := s.Header(); got != (Header{"plan", "analyzer"}) {
			t.Errorf("%s: header %+v", way, got)
		}
		if got := s.Counters(); got != (Counters{NextID: 1}) {
			t.Errorf("%s: counters %+v", way, got)
		}
		if err := s.Close(); err != nil {
			t.Error(way, err)
		}
	}
}

func TestReadOnlyRefusesWrites(t *testing.T) {
	dir := t.TempDir()
	makeStore(t, dir)
	s, err := Open(dir, Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	b := s.NewBatch()
	b.SetCounters(Counters{NextID: 2})
	if _, err := s.Apply(b, true); !errors.Is(err, ErrReadOnly) {
		t.Errorf("Apply: %v", err)
	}
	if err := s.SetAnalyzer("x"); !errors.Is(err, ErrReadOnly) {
		t.Errorf("SetAnalyzer: %v", err)
	}
	if err := s.Sync(); err != nil {
		t.Errorf("Sync: %v", err)
	}
}

// TestLockedByThisProcess opens a store twice, by each name that its directory has.
// POSIX locks do not hold within a process, and are gone with the first of its files
// that is closed.
func TestLockedByThisProcess(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "index")
	makeStore(t, dir)
	names := []string{dir, dir + string(filepath.Separator), filepath.Join(parent, "x", "..") + "/index"}
	if err := os.Symlink(dir, filepath.Join(parent, "link")); err == nil {
		names = append(names, filepath.Join(parent, "link"))
	}
	t.Chdir(parent)
	names = append(names, "index", "./index")
	if err := os.Mkdir("x", 0o755); err != nil {
		t.Fatal(err)
	}
	for _, first := range names {
		s, err := Open(first, Options{})
		if err != nil {
			t.Fatal(first, err)
		}
		for _, second := range names {
			for way, opts := range everyWay() {
				if other, err := Open(second, opts); !errors.Is(err, ErrLocked) {
					t.Errorf("open as %s, then %s as %s: %v", first, way, second, err)
					if err == nil {
						other.Close()
					}
				}
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLockedByAnotherProcess runs this test binary again, as a process that holds
// the store open until its standard input ends.
func TestLockedByAnotherProcess(t *testing.T) {
	const variable = "NEARDUP_TEST_HOLD_STORE"
	if dir := os.Getenv(variable); dir != "" {
		s, err := Open(dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println("open")
		io.Copy(io.Discard, os.Stdin)
		s.Close()
		return
	}
	dir := t.TempDir()
	makeStore(t, dir)
	child := exec.Command(os.Args[0], "-test.run=^TestLockedByAnotherProcess$")
	child.Env = append(os.Environ(), variable+"="+dir)
	stdin, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(stdout, make([]byte, len("open"))); err != nil {
		t.Fatal("the child did not open the store:", err)
	}
	for way, opts := range everyWay() {
		if _, err := Open(dir, opts); !errors.Is(err, ErrLocked) {
			t.Errorf("%s: %v", way, err)
		}
	}
	stdin.Close()
	go io.Copy(io.Discard, stdout)
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
	s, err := Open(dir, Options{})
	if err != nil {
		t.Fatal("after the child:", err)
	}
	s.Close()
}

// crashes takes a crash clone before each operation that changes the file system.
type crashes struct {
	mu     sync.Mutex
	mem    *vfs.MemFS
	clones []*vfs.MemFS
}

func (c *crashes) MaybeError(op errorfs.Op) error {
	if op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
		c.mu.Lock()
		c.clones = append(c.clones, c.mem.CrashClone(vfs.CrashCloneCfg{}))
		c.mu.Unlock()
	}
	return nil
}

func (c *crashes) String() string { return "crash clones" }

// TestCreationInterrupted cuts the making of a store short before every operation.
// What is left is no store or a whole one, and the next Open makes it whole; once
// Open has returned, it is there.
func TestCreationInterrupted(t *testing.T) {
	for _, dir := range []string{"store", "a/b/store"} {
		c := &crashes{mem: vfs.NewCrashableMem()}
		s, err := Open(dir, Options{Create: &Header{Plan: "plan"}, FS: errorfs.Wrap(c.mem, c)})
		if err != nil {
			t.Fatal(err)
		}
		made := c.mem.CrashClone(vfs.CrashCloneCfg{})
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if len(c.clones) < 10 {
			t.Fatalf("%d operations", len(c.clones))
		}
		for i, clone := range c.clones {
			s, err := Open(dir, Options{FS: clone.CrashClone(vfs.CrashCloneCfg{})})
			if err == nil {
				err = s.Close()
			} else if errors.Is(err, fs.ErrNotExist) {
				err = nil
			}
			if err != nil {
				t.Errorf("%s, operation %d: %v", dir, i, err)
			}
			openWhole(t, fmt.Sprintf("%s, operation %d", dir, i), dir, clone, Options{Create: &Header{Plan: "plan"}})
		}
		openWhole(t, dir+", made", dir, made, Options{})
	}
}

func openWhole(t *testing.T, what, dir string, fs vfs.FS, opts Options) {
	t.Helper()
	opts.FS = fs
	s, err := Open(dir, opts)
	if err != nil {
		t.Errorf("%s: %v", what, err)
		return
	}
	if s.Header().Plan != "plan" || s.Counters() != (Counters{NextID: 1}) {
		t.Errorf("%s: %+v, %+v", what, s.Header(), s.Counters())
	}
	if err := s.Close(); err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

// TestOpenErrorsOfTheFileSystem lets each operation of Open fail in turn: an error
// comes back, the lock is given up, and the store opens when all is well again. Pebble
// panics, by design, where its manifest or a directory cannot be made durable.
func TestOpenErrorsOfTheFileSystem(t *testing.T) {
	for i := 1; ; i++ {
		mem := vfs.NewMem()
		var mu sync.Mutex
		var failed errorfs.Op
		operations, opening := 0, true
		fails := errorfs.InjectorFunc(func(op errorfs.Op) error {
			mu.Lock()
			defer mu.Unlock()
			if op.Kind == errorfs.OpFileClose || !opening {
				return nil
			}
			if operations++; operations == i {
				failed = op
				return errorfs.ErrInjected
			}
			return nil
		})
		s, err := openRecovered("store", Options{Create: &Header{Plan: "plan"}, FS: errorfs.Wrap(mem, fails)})
		mu.Lock()
		opening = false
		mu.Unlock()
		if operations < i {
			if err != nil {
				t.Error(err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			return
		}
		what := fmt.Sprintf("operation %d, kind %d on %s", i, failed.Kind, failed.Path)
		switch {
		case err == nil: // it was not vital, or is told by the next write
			s.Close()
		case errors.Is(err, errPanic):
			if !strings.Contains(failed.Path, "MANIFEST") && !strings.Contains(failed.Path, "marker.manifest") && failed.Path != "store" {
				t.Errorf("%s: %v", what, err)
			}
			continue // the lock is lost with it
		case !errors.Is(err, errorfs.ErrInjected):
			t.Errorf("%s: %v", what, err)
		}
		openWhole(t, "after "+what, "store", mem, Options{Create: &Header{Plan: "plan"}})
	}
}

var errPanic = errors.New("panic")

func openRecovered(dir string, opts Options) (s *Store, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", errPanic, r)
		}
	}()
	return Open(dir, opts)
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

// A byte of the OPTIONS file that is another one does no harm, or Open says that the file
// is damaged or not of an index.
func TestEveryFlippedByteOfTheOptions(t *testing.T) {
	mem := vfs.NewMem()
	s, err := Open("ix", Options{Create: &Header{}, FS: mem})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	desc, err := pebble.Peek("ix", mem)
	if err != nil {
		t.Fatal(err)
	}
	text := string(bytesOf(t, mem, mem.PathBase(desc.OptionsFilename)))
	// Pebble compares the names in its first section, and looks at no others.
	names, harmless, refused := strings.Index(text, "[Level"), 0, 0
	if !strings.Contains(text[:names], "comparer=") || !strings.Contains(text[:names], "wal_dir=") {
		t.Fatalf("not in the first section of\n%s", text)
	}
	for at := range names {
		for _, change := range []byte{1, 0x88} {
			damaged := []byte(text)
			damaged[at] ^= change
			switch err := checkOptions("ix", string(damaged), desc.OptionsFilename); {
			case err == nil:
				harmless++
			case errors.Is(err, ErrCorrupt) || errors.Is(err, ErrNotIndex) || errors.Is(err, ErrVersion):
				refused++
				continue
			default:
				t.Errorf("byte %d ^ %#02x: %v", at, change, err)
			}
			if err := s.options.CheckCompatibility("ix", string(damaged)); err != nil {
				t.Errorf("byte %d ^ %#02x passes, and Pebble says: %v", at, change, err)
			}
		}
	}
	t.Logf("%d harmless, %d refused", harmless, refused)
	if harmless == 0 || refused < 20 {
		t.Errorf("%d harmless, %d refused", harmless, refused)
	}
}

// TestFilesArePrivate: nothing of an index, of a replacement or of a checkpoint can be read by others, and
// what there was before keeps its mode.
func TestFilesArePrivate(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there are no such modes")
	}
	root := t.TempDir()
	dir := filepath.Join(root, "made", "ix")
	s, err := Open(dir, Options{Create: &Header{}})
	if err != nil {
		t.Fatal(err)
	}
	b := s.NewBatch()
	document(b, 1)
	apply(t, s, b, true)
	if err := s.Checkpoint(t.Context(), filepath.Join(root, "copies", "1")); err != nil {
		t.Fatal(err)
	}
	r, err := s.NewRewrite(1)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.AddClock(1, 1); err != nil {
		t.Fatal(err)
	}
	if err := r.AddFilterChunk(0, 0, []byte("x")); err != nil {
		t.Fatal(err)
	}
	kinds := allPrivate(t, root)
	for _, kind := range []string{"LOCK", ".log", ".sst", "MANIFEST", "OPTIONS", "marker", incomingDir, surgeon.DigestName} {
		if !kinds[kind] {
			t.Errorf("no %s among %v", kind, kinds)
		}
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, "LOCK"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(dir, Options{}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(dir, "LOCK"))
	if err != nil || info.Mode() != 0o644 {
		t.Errorf("LOCK has mode %v, %v", info.Mode(), err)
	}
}

// allPrivate looks at the modes of all in a folder, and returns the kinds of files there are.
func allPrivate(t *testing.T, root string) map[string]bool {
	t.Helper()
	kinds := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v", path, info.Mode())
		}
		name := d.Name()
		if ext := filepath.Ext(name); ext == ".log" || ext == ".sst" {
			name = ext
		}
		name, _, _ = strings.Cut(name, "-")
		if strings.HasPrefix(name, "marker") {
			name = "marker"
		}
		kinds[name] = true
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return kinds
}
