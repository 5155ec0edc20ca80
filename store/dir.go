package store

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
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
	"github.com/neardup/neardup/internal/fault"
	"github.com/neardup/neardup/internal/process"
)

// fileSystem returns the file system for one in Options.
func fileSystem(fsys vfs.FS) vfs.FS {
	if fsys == nil {
		return vfs.Default
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
		return fmt.Errorf("%w: it is a file", fault.ErrNotIndex)
	}
	// Peek fails on a Pebble format that it does not know, with an error that has no name.
	marker, err := atomicfs.ReadMarker(opts.FS, dir, "format-version")
	if err != nil {
		return err
	}
	if version, err := strconv.ParseUint(marker, 10, 64); err == nil &&
		version > uint64(pebbleFormat) {
		return fmt.Errorf("%w: Pebble format %d, and this version reads up to %d", fault.ErrVersion,
			version, pebbleFormat)
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
		if err := fsys.MkdirAll(folder, 0o700); err != nil {
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

// missing returns the folders of a path that are not there, the highest last, and the one above
// them.
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
		if name != "LOCK" && !strings.HasPrefix(name, "MANIFEST-") &&
			!strings.HasPrefix(name, "OPTIONS-") &&
			!strings.HasPrefix(name, "marker.") && !strings.HasPrefix(name, "temporary.") {
			return fmt.Errorf("%w: it contains %q and no database", fault.ErrNotIndex, name)
		}
	}
	if opts.Create == nil {
		return fmt.Errorf("there is no index: %w", fs.ErrNotExist)
	}
	return nil
}

// checkOptions recognizes a Pebble database of another kind by the comparer that its OPTIONS file
// names. Opening it would already write to it. Pebble compares other names with its own, but its
// errors have no types.
func checkOptions(dir, text, optionsFile string) error {
	for line := range strings.Lines(text) {
		name, found := strings.CutPrefix(strings.TrimSpace(line), "comparer=")
		if found && !strings.HasPrefix(name, "neardup.") {
			return fmt.Errorf("%w: a Pebble database of another kind, with comparer %q",
				fault.ErrNotIndex, name)
		}
		if found && name != comparer.Name {
			return fmt.Errorf("%w: its keys are ordered by %q, and this version knows %q",
				fault.ErrVersion, name, comparer.Name)
		}
	}
	own := &pebble.Options{Comparer: comparer, Merger: merger}
	if err := own.CheckCompatibility(dir, text); err != nil {
		return fmt.Errorf("%w: %s: %w", fault.ErrCorrupt, optionsFile, firstLine{err})
	}
	return nil
}

// dirLock is the lock on a directory. The store can release it before Pebble does, when Pebble is
// abandoned.
type dirLock struct {
	vfs.FS
	once sync.Once
	held io.Closer
	own  *pebble.Lock // our reference besides Pebble's
}

// lockDir takes the lock of an index.
func lockDir(dir string, fsys vfs.FS) (*dirLock, error) {
	l := &dirLock{FS: fsys}
	lock, err := pebble.LockDirectory(dir, l)
	switch {
	case err == nil:
		l.own = lock
		return l, nil
	case errors.Is(err, syscall.EROFS):
		return nil, fmt.Errorf(
			"%w: copy the index to a file system that can be written to: Open locks it", err)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, fs.ErrNotExist),
		errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EMFILE),
		errors.Is(err, syscall.ENFILE):
		return nil, err
	}
	return nil, fmt.Errorf("%w: %w", fault.ErrLocked, err)
}

func (l *dirLock) Lock(name string) (io.Closer, error) {
	held, err := l.FS.Lock(name)
	if err != nil {
		return nil, err
	}
	l.held = held
	return l, nil
}

// Close releases the lock, also for Pebble.
func (l *dirLock) Close() (err error) {
	l.once.Do(func() { err = l.held.Close() })
	return err
}

func newFileCache() *pebble.FileCache {
	size := process.TableFiles(process.OpenFilesLimit())
	return pebble.NewFileCache(min(runtime.GOMAXPROCS(0), size), size)
}

var errOpenFiles = errors.New("raise that limit (ulimit -n)")

// explainOpenFiles adds to an error of too many open files how many there may be.
func explainOpenFiles(err error) error {
	if !errors.Is(err, syscall.EMFILE) || errors.Is(err, errOpenFiles) {
		return err
	}
	return fmt.Errorf("%w: this process may have %d open; %w", err,
		process.OpenFilesLimit(), errOpenFiles)
}
