package failfs

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// outside reports whether a name is neither the directory of the database nor a file in it.
func (f *FS) outside(name string) bool { return name != f.dir && f.PathDir(name) != f.dir }

// vital reports whether Pebble ends the process if it cannot write to a file or directory.
func (f *FS) vital(name string) bool {
	base := f.PathBase(name)
	return name == f.dir || f.PathDir(name) == f.dir &&
		(strings.HasSuffix(base, ".log") || strings.HasPrefix(base, "MANIFEST-") ||
			strings.HasPrefix(base, "marker."))
}

// Copy calls a function that copies the database into another directory. After ctx ends or Copy
// returns, nothing is created there. Pebble panics if it cannot sync the directory of a copy.
func (f *FS) Copy(ctx context.Context, do func() error) error {
	f.copying.Store(&ctx)
	defer f.copying.Store(nil)
	err := f.Do(0, func() (err error) {
		defer func() {
			if cause, ok := recover().(error); ok {
				err = cause
			}
		}()
		return do()
	})
	f.using.Lock()
	f.using.Unlock() //lint:ignore SA2001 it waits for operations in progress after a stop
	return err
}

// changeTo runs an operation that creates a name.
func (f *FS) changeTo(name string, do func() error) error {
	return f.change(f.vital(name), func() error {
		if ctx := f.copying.Load(); ctx != nil && f.outside(name) && (*ctx).Err() != nil {
			return (*ctx).Err()
		}
		return do()
	})
}

func (f *FS) Create(name string, category vfs.DiskWriteCategory) (created vfs.File, err error) {
	if base := f.PathBase(name); f.opening.Load() {
		f.mu.Lock()
		f.named = f.named || strings.HasPrefix(base, "marker.")
		if strings.HasSuffix(base, ".sst") || strings.HasPrefix(base, "MANIFEST-") {
			f.created = append(f.created, name)
		}
		f.mu.Unlock()
	}
	err = f.changeTo(name, func() (err error) {
		created, err = f.FS.Create(name, category)
		return err
	})
	return f.wrap(name, true, created, err)
}

var errNoLinks = errors.New("the file system cannot link files")

// Link returns errNoLinks instead of ErrPermission, which some file systems without links return.
// After errNoLinks, Pebble copies the file.
func (f *FS) Link(oldname, newname string) error {
	err := f.changeTo(newname, func() error { return f.FS.Link(oldname, newname) })
	if errors.Is(err, fs.ErrPermission) {
		return errNoLinks
	}
	return err
}

// MkdirAll creates directories with mode 0700, and ignores the mode that Pebble passes.
func (f *FS) MkdirAll(dir string, _ fs.FileMode) error {
	return f.changeTo(dir, func() error { return f.FS.MkdirAll(dir, 0o700) })
}

func (f *FS) Rename(oldname, newname string) error {
	return f.changeTo(newname, func() error { return f.FS.Rename(oldname, newname) })
}

// Remove never stops the database, since Pebble survives its errors even in Open.
func (f *FS) Remove(name string) (err error) {
	_ = f.change(false, func() error { err = f.FS.Remove(name); return nil })
	return err
}

func (f *FS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	opened, err := f.FS.Open(name, opts...)
	return f.wrap(name, false, opened, err)
}

func (f *FS) OpenDir(name string) (vfs.File, error) {
	opened, err := f.FS.OpenDir(name)
	return f.wrap(name, false, opened, err)
}

// List stops the database if it fails in Open, which may already have started background work.
func (f *FS) List(dir string) (names []string, err error) {
	err = f.change(false, func() error { names, err = f.FS.List(dir); return err })
	return names, err
}

// Unwrap returns the wrapped file system. Pebble checks its type.
func (f *FS) Unwrap() vfs.FS { return f.FS }

// file is an open file or directory.
type file struct {
	vfs.File
	f     *FS
	vital bool
	from  io.Reader // from which Read reads

	log      string       // the name of a log that is being written
	written  atomic.Int64 // bytes of the log
	reserved int64        // bytes of the log and of the space reserved after it
	syncs    int64        // since space was reserved
}

func (f *FS) wrap(name string, writes bool, opened vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	w := &file{File: opened, f: f, vital: f.vital(name), from: opened}
	log := w.vital && strings.HasSuffix(name, ".log")
	if writes && log {
		w.log = name
	}
	f.mu.Lock()
	if f.open == nil {
		f.mu.Unlock()
		opened.Close()
		select {}
	}
	if log && !writes {
		// A reader must not copy reserved space: followed by later records, it would look like
		// damage in the middle of the log.
		for other := range f.open {
			if other.log == name {
				w.from = io.LimitReader(opened, other.written.Load())
			}
		}
	}
	f.open[w] = struct{}{}
	f.mu.Unlock()
	return w, nil
}

// The space that is reserved after a log is as large as the log, within these bounds. A sync that
// also records new blocks or a new length takes more than twice as long.
const (
	minReserve = 64 << 10
	maxReserve = 1 << 20
)

// reserve reserves space for n more bytes of a log. If the log is synced often, it writes zeros,
// otherwise it only allocates blocks. It ignores errors, which only make writes slower.
func (w *file) reserve(n int) {
	written := w.written.Load() + int64(n)
	if w.log == "" || written <= w.reserved {
		return
	}
	more := min(max(written, minReserve), maxReserve)
	if end := written + more; w.syncs*minReserve >= more {
		_, _ = w.File.WriteAt(make([]byte, end-w.reserved), w.reserved)
	} else {
		_ = w.File.Preallocate(w.reserved, end-w.reserved)
	}
	w.reserved, w.syncs = written+more, 0
}

// Preallocate does nothing. Pebble would allocate the size of a memtable for each log.
func (w *file) Preallocate(offset, length int64) error { return nil }

func (w *file) Write(p []byte) (n int, err error) {
	err = w.f.change(w.vital, func() (err error) {
		w.reserve(len(p))
		n, err = w.File.Write(p)
		w.written.Add(int64(n))
		return err
	})
	return n, err
}

func (w *file) Sync() error { return w.f.change(w.vital, w.File.Sync) }

func (w *file) SyncData() error {
	w.syncs++
	return w.f.change(w.vital, w.File.SyncData)
}

func (w *file) SyncTo(length int64) (fullSync bool, err error) {
	err = w.f.change(w.vital, func() (err error) {
		fullSync, err = w.File.SyncTo(length)
		return err
	})
	return fullSync, err
}

func (w *file) Read(p []byte) (n int, err error) {
	err = w.f.read(func() (err error) { n, err = w.from.Read(p); return err })
	return n, err
}

func (w *file) ReadAt(p []byte, offset int64) (n int, err error) {
	err = w.f.read(func() (err error) { n, err = w.File.ReadAt(p, offset); return err })
	return n, err
}

func (w *file) Stat() (info vfs.FileInfo, err error) {
	err = w.f.read(func() (err error) { info, err = w.File.Stat(); return err })
	return info, err
}

func (w *file) Close() error {
	w.f.mu.Lock()
	_, open := w.f.open[w]
	delete(w.f.open, w)
	w.f.mu.Unlock()
	if !open { // abandon has closed it
		return nil
	}
	if err := w.File.Close(); err != nil {
		return w.f.change(w.vital, func() error { return err })
	}
	return nil
}
