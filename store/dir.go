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

// prepareDir creates dir if opts allow it. It changes nothing in an existing directory, and returns
// an error if the directory contains anything except an index.
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
	// Peek returns an untyped error for an unknown Pebble format.
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

// makeDir creates dir and its missing parents. It syncs their parents, since a crash can lose a
// directory otherwise. makeDir returns the topmost directory that it created, or "".
func makeDir(dir string, fsys vfs.FS) (topmost string, err error) {
	directories, _ := missing(dir, fsys)
	for _, d := range slices.Backward(directories) {
		if err := fsys.MkdirAll(d, 0o700); err != nil {
			return topmost, err
		}
		topmost = cmp.Or(topmost, d)
		if err := syncDir(fsys.PathDir(d), fsys); err != nil {
			return topmost, err
		}
	}
	return topmost, nil
}

// syncDir makes the entries of a directory durable.
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

// missing returns the directories of a path that do not exist, the topmost last, and the closest
// parent that exists.
func missing(dir string, fsys vfs.FS) (directories []string, parent string) {
	for {
		if _, err := fsys.Stat(dir); err == nil || fsys.PathDir(dir) == dir {
			return directories, dir
		}
		directories = append(directories, dir)
		dir = fsys.PathDir(dir)
	}
}

// canonicalDir returns the same path for all names of a directory. Within a process, Pebble locks
// by path, and the lock of the operating system has no effect.
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

// checkUnfinished checks a directory without a database. It returns ErrNotIndex if the directory
// contains anything except files of an interrupted creation. Otherwise it returns fs.ErrNotExist if
// opts do not allow Open to create a store.
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

// checkOptions checks the text of the OPTIONS file of a database, since Open would write to the
// database. The name of the comparer identifies databases of other applications. Pebble checks the
// other options, but its errors are untyped.
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

// dirLock is the lock of a directory. If Pebble is abandoned, it does not release the lock, so the
// store does.
type dirLock struct {
	vfs.FS
	once sync.Once
	held io.Closer
	own  *pebble.Lock // the reference of the store; Pebble has another one
}

// lockDir locks the directory of an index.
func lockDir(dir string, fsys vfs.FS) (*dirLock, error) {
	l := &dirLock{FS: fsys}
	lock, err := pebble.LockDirectory(dir, l)
	switch {
	case err == nil:
		l.own = lock
		return l, nil
	case errors.Is(err, syscall.EROFS):
		return nil, fmt.Errorf(
			"%w: Open must lock the index: copy it to a writable file system", err)
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

// explainOpenFiles adds the limit on open files to an error about too many open files.
func explainOpenFiles(err error) error {
	if !errors.Is(err, syscall.EMFILE) || errors.Is(err, errOpenFiles) {
		return err
	}
	return fmt.Errorf("%w: this process may have %d open; %w", err,
		process.OpenFilesLimit(), errOpenFiles)
}
