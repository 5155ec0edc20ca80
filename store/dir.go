package store

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"
	"github.com/neardup/neardup/internal/failfs"
	"github.com/neardup/neardup/internal/fault"
	"github.com/neardup/neardup/internal/process"
)

// machineFS is the file system of every index that is given none. What it makes anew belongs to the user
// alone, since what was crawled is in it: files are 0600 and folders 0700. What is there stays as it is.
var machineFS vfs.FS = &privateFS{vfs.Default}

type privateFS struct{ vfs.FS }

// Create removes what there is, as vfs.Default does, which would also make the file with the mode that
// umask leaves.
func (p *privateFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return p.OpenReadWrite(name, category)
}

func (p *privateFS) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	if err := makePrivate(name); err != nil {
		return nil, err
	}
	return p.FS.OpenReadWrite(name, category, opts...)
}

func (p *privateFS) Lock(name string) (io.Closer, error) {
	if err := makePrivate(name); err != nil {
		return nil, err
	}
	return p.FS.Lock(name)
}

func (p *privateFS) MkdirAll(dir string, _ fs.FileMode) error {
	return p.FS.MkdirAll(dir, 0o700)
}

// Unwrap is for Pebble, which looks for what it knows beneath.
func (p *privateFS) Unwrap() vfs.FS { return p.FS }

// makePrivate makes an empty file where there is none.
func makePrivate(name string) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return f.Close()
}

// fileSystem returns the file system that is meant by one in Options.
func fileSystem(fsys vfs.FS) vfs.FS {
	if fsys == nil || fsys == vfs.Default {
		return machineFS
	}
	return fsys
}

// prepareDir makes dir if it may, and refuses one that holds anything but an
// index, before a single byte in it is changed.
func prepareDir(dir string, opts Options) error {
	info, err := opts.FS.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) && opts.Create != nil {
		_, err = makeDir(dir, opts.FS)
		return err
	}
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%w: it is a file", ErrNotIndex)
	}
	// Peek fails on a Pebble format that it does not know, with an error that has no name.
	marker, err := atomicfs.ReadMarker(opts.FS, dir, "format-version")
	if err != nil {
		return err
	}
	if version, err := strconv.ParseUint(marker, 10, 64); err == nil && version > uint64(pebbleFormat) {
		return fmt.Errorf("%w: Pebble format %d, and this version reads up to %d", ErrVersion, version, pebbleFormat)
	}
	desc, err := pebble.Peek(dir, opts.FS)
	switch {
	case err != nil:
		return translateError(err)
	case !desc.Exists:
		return checkUnfinished(dir, opts)
	case desc.OptionsFilename == "":
		return nil
	}
	text, err := readFile(desc.OptionsFilename, opts.FS)
	if err != nil {
		return err
	}
	return checkOptions(dir, string(text), desc.OptionsFilename)
}

// makeDir makes dir and its missing parents, durably: a directory is there after a
// crash once the one above it is synced. It returns the highest that it has made, "" for none.
func makeDir(dir string, fsys vfs.FS) (made string, err error) {
	folders, _ := missing(dir, fsys)
	for _, folder := range slices.Backward(folders) {
		if err := fsys.MkdirAll(folder, 0o755); err != nil {
			return made, err
		}
		made = cmp.Or(made, folder)
		if err := syncDir(fsys.PathDir(folder), fsys); err != nil {
			return made, err
		}
	}
	return made, nil
}

// syncDir makes the names in a directory durable.
func syncDir(dir string, fsys vfs.FS) error {
	d, err := fsys.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func readFile(path string, fsys vfs.FS) ([]byte, error) {
	f, err := fsys.Open(path, vfs.SequentialReadsOption)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(f)
	return data, errors.Join(err, f.Close())
}

// missing returns the folders of a path that are not there, the highest last, and the one above them.
func missing(dir string, fsys vfs.FS) (folders []string, above string) {
	for {
		if _, err := fsys.Stat(dir); err == nil || fsys.PathDir(dir) == dir {
			return folders, dir
		}
		folders = append(folders, dir)
		dir = fsys.PathDir(dir)
	}
}

// canonicalDir gives every name of a directory of the machine as the same one. Within a
// process Pebble's lock goes by the name, and the system's lock does not hold.
func canonicalDir(dir string, fsys vfs.FS) (string, error) {
	if vfs.Root(fsys) != vfs.Default {
		return dir, nil
	}
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(absolute)
}

// checkUnfinished allows an empty directory, and one in which Pebble had just
// begun to make a database when the machine stopped.
func checkUnfinished(dir string, opts Options) error {
	names, err := opts.FS.List(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if name != "LOCK" && !strings.HasPrefix(name, "MANIFEST-") && !strings.HasPrefix(name, "OPTIONS-") &&
			!strings.HasPrefix(name, "marker.") && !strings.HasPrefix(name, "temporary.") {
			return fmt.Errorf("%w: it holds %q and no database", ErrNotIndex, name)
		}
	}
	if opts.Create == nil {
		return fmt.Errorf("no index there: %w", fs.ErrNotExist)
	}
	return nil
}

// checkOptions tells a Pebble database of another kind by the merger that its OPTIONS
// file names: opening it would already write to it. Of the rest, Pebble compares a few
// names with its own, and its errors there have none.
func checkOptions(dir, text, optionsFile string) error {
	for line := range strings.Lines(text) {
		name, found := strings.CutPrefix(strings.TrimSpace(line), "merger=")
		if found && !strings.HasPrefix(name, "neardup.") {
			return fmt.Errorf("%w: a Pebble database of another kind, with merger %q", ErrNotIndex, name)
		}
		if found && name != postingMerger.Name {
			return fmt.Errorf("%w: its postings merge by %q, and this version knows %q", ErrVersion, name, postingMerger.Name)
		}
	}
	own := &pebble.Options{Comparer: pebble.DefaultComparer, Merger: postingMerger}
	if err := own.CheckCompatibility(dir, text); err != nil {
		return fmt.Errorf("%w: %s: %w", fault.ErrCorrupt, optionsFile, firstLine{err})
	}
	return nil
}

// dirLock is the lock on a directory. It can be given back before Pebble does, where Pebble is abandoned.
type dirLock struct {
	vfs.FS
	once sync.Once
	held io.Closer
	kept func() error // gives back the second lock; nil: there is none
	own  *pebble.Lock // our reference, beside Pebble's
}

// locking is held while a lock is taken and, where that fails, its holder is looked
// up: that closes a file, and with any file that it closes a process loses the lock on it.
var locking sync.Mutex

// lockDir takes the lock of an index, or says who has it.
func lockDir(dir string, fsys vfs.FS) (*dirLock, error) {
	locking.Lock()
	defer locking.Unlock()
	l := &dirLock{FS: fsys}
	lock, err := pebble.LockDirectory(dir, l)
	switch {
	case err == nil:
		l.own = lock
		return l, nil
	case errors.Is(err, syscall.EROFS):
		return nil, fmt.Errorf("%w: readers write to the LOCK file too; copy the index to a file system that is not read-only", err)
	case fsys != machineFS:
		return nil, fmt.Errorf("%w: %w", ErrLocked, err)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOSPC),
		errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return nil, err
	case !errors.As(err, new(syscall.Errno)): // Pebble's own list of what it has locked
		return nil, fmt.Errorf("%w: by this process, %d", ErrLocked, os.Getpid())
	}
	if pid := process.LockHolder(fsys.PathJoin(dir, "LOCK")); pid > 0 {
		return nil, fmt.Errorf("%w: by process %d%s", ErrLocked, pid, process.Name(pid))
	}
	return nil, fmt.Errorf("%w: by another process: %w", ErrLocked, err)
}

func (l *dirLock) Lock(name string) (io.Closer, error) {
	held, err := l.FS.Lock(name)
	if err != nil {
		return nil, err
	}
	l.held = held
	if l.FS == machineFS {
		if l.kept, err = process.KeepLock(name); err != nil {
			return nil, errors.Join(err, l.Close())
		}
	}
	return l, nil
}

// Close gives the lock back. It is Pebble's too.
func (l *dirLock) Close() (err error) {
	l.once.Do(func() {
		if l.kept != nil {
			err = l.kept()
		}
		err = errors.Join(err, l.held.Close())
	})
	return err
}

// heldFS is the file system of the machine for an index that is open. All goes by the name of the folder, which
// may be moved or removed meanwhile, and another index be put there. So it looks whether the LOCK file is still the
// one that is held, before it opens or changes anything in the folder and behind each flush of a log. Where it is
// another or gone, the index stops.
type heldFS struct {
	vfs.FS
	dir     string
	lock    fs.FileInfo // of the LOCK file that is held
	guarded *failfs.FS  // what is over this
}

var errMoved = errors.New("the folder of the index was moved or removed while it was open")

// guardedFS returns the file system for the database in a folder that is locked, and the one beneath it.
func guardedFS(dir string, fsys vfs.FS, failed func(error)) (guarded *failfs.FS, beneath vfs.FS, err error) {
	if fsys != machineFS || runtime.GOOS == "windows" { // which moves no folder with a file that is open
		return failfs.New(fsys, dir, failed), fsys, nil
	}
	h := &heldFS{FS: fsys, dir: dir}
	if h.lock, err = os.Stat(h.PathJoin(dir, "LOCK")); err != nil {
		return nil, nil, err
	}
	h.guarded = failfs.New(h, dir, failed)
	return h.guarded, h, nil
}

// held fails where the folder is not the one that was opened. Where that cannot be seen, what is done there tells why.
func (h *heldFS) held() error {
	lock, err := os.Stat(h.PathJoin(h.dir, "LOCK")) // to open and close it would give the lock back
	gone := errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
	if gone || err == nil && !os.SameFile(lock, h.lock) {
		h.guarded.Stop(errMoved)
		return h.guarded.Err()
	}
	return nil
}

// check calls held where one of the names is in the folder, or is its own.
func (h *heldFS) check(names ...string) error {
	if !slices.ContainsFunc(names, h.has) {
		return nil
	}
	return h.held()
}

func (h *heldFS) has(name string) bool {
	rest, found := strings.CutPrefix(name, h.dir)
	return found && (rest == "" || os.IsPathSeparator(rest[0]))
}

func (h *heldFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if err := h.check(name); err != nil {
		return nil, err
	}
	f, err := h.FS.Create(name, category)
	if err == nil && strings.HasSuffix(name, ".log") && h.has(name) {
		return heldLog{f, h}, nil
	}
	return f, err
}

func (h *heldFS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	if err := h.check(name); err != nil {
		return nil, err
	}
	return h.FS.Open(name, opts...)
}

func (h *heldFS) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	if err := h.check(name); err != nil {
		return nil, err
	}
	return h.FS.OpenReadWrite(name, category, opts...)
}

func (h *heldFS) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if err := h.check(oldname, newname); err != nil {
		return nil, err
	}
	return h.FS.ReuseForWrite(oldname, newname, category)
}

func (h *heldFS) Link(oldname, newname string) error {
	if err := h.check(oldname, newname); err != nil {
		return err
	}
	return h.FS.Link(oldname, newname)
}

func (h *heldFS) Rename(oldname, newname string) error {
	if err := h.check(oldname, newname); err != nil {
		return err
	}
	return h.FS.Rename(oldname, newname)
}

func (h *heldFS) Remove(name string) error {
	if err := h.check(name); err != nil {
		return err
	}
	return h.FS.Remove(name)
}

func (h *heldFS) RemoveAll(name string) error {
	if err := h.check(name); err != nil {
		return err
	}
	return h.FS.RemoveAll(name)
}

func (h *heldFS) MkdirAll(dir string, perm fs.FileMode) error {
	if err := h.check(dir); err != nil {
		return err
	}
	return h.FS.MkdirAll(dir, perm)
}

func (h *heldFS) Unwrap() vfs.FS { return h.FS }

// heldLog is a log of Pebble's: nothing in it is acknowledged once the folder is another.
type heldLog struct {
	vfs.File
	fs *heldFS
}

func (l heldLog) SyncData() error {
	if err := l.File.SyncData(); err != nil {
		return err
	}
	return l.fs.held()
}

// Tables are kept open: opening one anew takes several reads. Half the limit on open files, less 128 for
// logs and tables that are being closed, is left to the host program.
const (
	mostOpenTables  = 1000
	leastOpenTables = 8
	otherOpenFiles  = 128
)

func openTables(limit uint64) int { return int(min(sharedFiles(limit)/2, mostOpenTables)) }

// HostFiles returns how many of the files that a process may have open are left to the host program.
func HostFiles(limit uint64) uint64 {
	shared := sharedFiles(limit)
	return max(shared/2, shared-min(shared, mostOpenTables))
}

// sharedFiles returns how many are for tables and the host program together.
func sharedFiles(limit uint64) uint64 {
	return max(limit, otherOpenFiles+2*leastOpenTables) - otherOpenFiles
}

func newFileCache() *pebble.FileCache {
	size := openTables(process.OpenFilesLimit())
	return pebble.NewFileCache(min(runtime.GOMAXPROCS(0), size), size)
}

var errOpenFiles = errors.New("raise that limit (ulimit -n)")

// explainOpenFiles adds to an error of too many open files how many there may be.
func explainOpenFiles(err error) error {
	if !errors.Is(err, syscall.EMFILE) || errors.Is(err, errOpenFiles) {
		return err
	}
	return fmt.Errorf("%w: this process may have %d open; %w", err, process.OpenFilesLimit(), errOpenFiles)
}
