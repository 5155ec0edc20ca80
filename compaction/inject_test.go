package compaction_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"regexp"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/neardup/neardup/internal/crashfs"
)

// crashes is an injector that lets the machine stop before operations that change the file
// system, while it is on: it keeps what would be left then.
type crashes struct {
	mu    sync.Mutex
	disk  *crashfs.FS
	r     *rand.Rand // Pebble's goroutines draw from it too
	every int        // one in so many operations
	on    bool
	left  []left
}

// left is what a crash left.
type left struct {
	before string // the operation
	synced bool   // nothing else is there
	fsys   *crashfs.FS
}

func (c *crashes) String() string { return "crashes" }

func (c *crashes) MaybeError(op errorfs.Op) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.on && op.Kind.ReadOrWrite() == errorfs.OpIsWrite && c.r.IntN(c.every) == 0 {
		c.note(fmt.Sprintf("operation of kind %d on %s", op.Kind, op.Path))
	}
	return nil
}

// note keeps what a crash leaves now: of each operation, what is synced, and that with
// some of the rest, and of one in several either.
func (c *crashes) note(before string) {
	percents := []int{0, 1 + c.r.IntN(100)}
	if c.every > 1 {
		percents = []int{pick(c.r, 0, 100, 1+c.r.IntN(99), 1+c.r.IntN(99))}
	}
	for _, percent := range percents {
		fsys := c.disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: c.r})
		for percent > 0 && !fsys.Orderly("ix") {
			fsys = c.disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: c.r})
		}
		c.left = append(c.left, left{fmt.Sprintf("%s, with %d %% of what is not synced", before, percent), percent == 0, fsys})
	}
}

// during calls do and returns what crashes meanwhile left, and one behind it.
func (c *crashes) during(do func()) (meanwhile, after []left) {
	c.mu.Lock()
	c.on, c.left = true, nil
	c.mu.Unlock()
	do()
	c.mu.Lock()
	defer c.mu.Unlock()
	meanwhile = c.left
	c.on, c.left = false, nil
	c.note("the end")
	return meanwhile, c.left
}

// kill returns the files as a process leaves them that ends now: all that it wrote is
// there, and what it did not sync can still be lost with the machine.
func kill(t *testing.T, fsys *crashfs.FS) *crashfs.FS {
	t.Helper()
	left := crashfs.New()
	check := func(err error) {
		t.Helper()
		must(t, err)
	}
	sync := func(dir string) {
		d, err := left.OpenDir(dir)
		check(err)
		check(errors.Join(d.Sync(), d.Close()))
	}
	files := func(from vfs.FS, do func(name string, data []byte)) (names []string) {
		names, err := from.List("ix")
		check(err)
		for _, name := range names {
			f, err := from.Open("ix/" + name)
			check(err)
			data, err := io.ReadAll(f)
			check(errors.Join(err, f.Close()))
			do("ix/"+name, data)
		}
		return names
	}
	write := func(name string, data []byte) vfs.File {
		f, err := left.OpenReadWrite(name, vfs.WriteCategoryUnspecified)
		check(err)
		_, err = f.WriteAt(data, 0)
		check(err)
		return f
	}
	check(left.MkdirAll("ix", 0o755))
	synced := files(fsys.CrashClone(vfs.CrashCloneCfg{}), func(name string, data []byte) {
		f := write(name, data)
		check(errors.Join(f.Sync(), f.Close()))
	})
	sync("ix")
	sync(".")
	written := files(copyOf(fsys, rand.New(rand.NewPCG(0, 0))), func(name string, data []byte) {
		check(write(name, data).Close())
	})
	for _, name := range synced {
		if !slices.Contains(written, name) {
			check(left.Remove("ix/" + name))
		}
	}
	return left
}

func copyOf(fsys *crashfs.FS, r *rand.Rand) *crashfs.FS {
	return fsys.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: r})
}

// operation is the n-th of its kind on files of such a name; the first is 0.
type operation struct {
	kind errorfs.OpKind
	path string // without numbers
	n    int
}

func (o operation) String() string {
	return fmt.Sprintf("operation %d of kind %d on %s", o.n, o.kind, o.path)
}

var fileNumber = regexp.MustCompile(`[0-9a-f]{16}|[0-9]{6}`)

func sortOf(op errorfs.Op) operation {
	return operation{kind: op.Kind, path: fileNumber.ReplaceAllString(op.Path, "N")}
}

// takesSpace tells the operations that a full disk refuses.
func (o operation) takesSpace() bool {
	switch o.kind {
	case errorfs.OpCreate, errorfs.OpLink, errorfs.OpMkdirAll, errorfs.OpReuseForWrite, errorfs.OpFileWrite,
		errorfs.OpFileWriteAt, errorfs.OpFilePreallocate, errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo:
		return true
	}
	return false
}

// The ways in which an operation fails.
const (
	failOnce  = "once"
	failSpace = "and whatever takes space after it, for ever"
	failShort = "a write that is cut short"
)

// fault is an injector that lets one operation fail: at, or if that has no path the n-th
// of all. What is to fail for want of space is the next one that takes some.
type fault struct {
	at  operation
	how string

	mu     sync.Mutex
	seen   map[operation]int
	off    bool
	failed string // the first operation that did; "": none
}

func newFault(at operation, how string) *fault {
	return &fault{at: at, how: how, seen: make(map[operation]int)}
}

func (f *fault) String() string { return "fault" }

func (f *fault) MaybeError(op errorfs.Op) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.off {
		return nil
	}
	o := sortOf(op)
	sort := o
	if f.at.path == "" {
		sort = operation{}
	}
	n := f.seen[sort]
	f.seen[sort]++
	sort.n = n
	space := f.how == failSpace && o.takesSpace()
	if sort != f.at && (!space || f.failed == "") {
		return nil
	}
	if f.how == failSpace && !space && f.failed == "" && f.at.path == "" {
		f.at.n++
		return nil
	}
	if f.failed == "" {
		f.failed = o.String()
	}
	if f.how == failShort && op.Kind == errorfs.OpFileWrite {
		return errShort
	}
	cause := syscall.EIO
	if o.takesSpace() && f.how != failOnce || f.how == failSpace {
		cause = syscall.ENOSPC
	}
	return &fs.PathError{Op: injected, Path: op.Path, Err: cause}
}

// hit returns the operation that failed; "" if none did.
func (f *fault) hit() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failed
}

// set turns the faults on, or off.
func (f *fault) set(on bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.off = !on
}

const injected = "injected"

// isInjected reports whether an error is that of a fault.
func isInjected(err error) bool {
	var path *fs.PathError
	return errors.As(err, &path) && path.Op == injected
}

var errShort = errors.New("short write")

// shortFS writes the first half where a write is to be cut short.
type shortFS struct{ vfs.FS }

func (s *shortFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := s.FS.Create(name, category)
	if err != nil {
		return nil, err
	}
	return shortFile{f}, nil
}

type shortFile struct{ vfs.File }

func (f shortFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	if !errors.Is(err, errShort) {
		return n, err
	}
	if n, err = f.File.Write(p[:len(p)/2]); err != nil { // the fault is past
		return n, err
	}
	return n, &fs.PathError{Op: injected, Path: "a write that was cut short", Err: syscall.ENOSPC}
}
