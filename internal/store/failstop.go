package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// failStop stands between Pebble and the file system, for what Pebble does not survive.
// Where its log, its MANIFEST, a marker or a directory can not be written, it ends the
// process, as what is on the disk is not known from there on; and where Open fails late
// it uses what it has just freed. So an error of that kind never reaches it: the call
// that would return it does not return, and nothing that changes the disk does after
// it. Reads go on, by what Pebble has in memory. Our own calls of Pebble go through
// Store.guard, which returns when the store has stopped, whatever Pebble waits for.
//
// Pebble makes these calls without the locks that its readers take.
type failStop struct {
	vfs.FS
	dir  string
	tell func(error) // is told the cause, before stopped is closed

	stopped chan struct{}
	once    sync.Once
	cause   error // once stopped is closed

	ending  chan struct{} // closed when Pebble is about to be closed, or left behind
	endOnce sync.Once

	opening  atomic.Bool
	excising atomic.Bool
	flushed  atomic.Bool // since Open began
	readFail atomic.Pointer[error]

	failures  atomic.Int64 // of work in the background, one after the other
	notBefore atomic.Int64 // when it may be tried again, in Unix nanoseconds
	writes    sync.RWMutex // read-locked by each operation that changes the disk

	mu   sync.Mutex
	open map[*stopFile]struct{} // closed when Pebble is left behind, and nil from then on
}

func newFailStop(fsys vfs.FS, dir string, tell func(error)) *failStop {
	f := &failStop{FS: fsys, dir: dir, tell: tell, stopped: make(chan struct{}), ending: make(chan struct{}), open: make(map[*stopFile]struct{})}
	f.opening.Store(true)
	return f
}

// stop lets nothing change the disk from now on.
func (f *failStop) stop(cause error) {
	f.once.Do(func() {
		f.cause = cause
		f.tell(cause)
		close(f.stopped)
	})
}

func (f *failStop) hasStopped() bool {
	select {
	case <-f.stopped:
		return true
	default:
		return false
	}
}

// end lets nothing wait for its time any more.
func (f *failStop) end() { f.endOnce.Do(func() { close(f.ending) }) }

// settle waits for the operations under way, once the store has stopped.
func (f *failStop) settle() {
	f.writes.Lock()
	defer f.writes.Unlock()
}

// leave waits for the operations under way and closes every file, so that another
// Store can have the directory. Nothing may read any more.
func (f *failStop) leave() {
	f.end()
	f.writes.Lock()
	defer f.writes.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	for file := range f.open {
		file.leave()
	}
	f.open = nil
}

// change runs what changes the disk. An error that Pebble would not survive stops the
// store, and change then never returns, nor does any call after it.
func (f *failStop) change(fatal bool, do func() error) error {
	f.writes.RLock()
	if f.hasStopped() {
		f.writes.RUnlock()
		select {}
	}
	err := do()
	f.writes.RUnlock()
	if err != nil && (fatal || f.opening.Load() && !errors.Is(err, fs.ErrNotExist)) {
		f.stop(err)
		select {}
	}
	return err
}

// read notes the error of a read while Pebble opens, for it to be known when Open
// comes to nothing, and stops the store at one while Pebble excises.
func (f *failStop) read(err error) error {
	if err == nil || err == io.EOF || errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if f.opening.Load() {
		f.readFail.CompareAndSwap(nil, &err)
	}
	if f.excising.Load() {
		f.stop(err)
		select {}
	}
	return err
}

// errGivenUp: Pebble's Open failed for a reason that only Pebble knows.
var errGivenUp = errors.New("the store beneath could not be opened")

// vital tells the files without which Pebble does not go on.
func (f *failStop) vital(name string) bool {
	base := f.PathBase(name)
	return f.PathDir(name) == f.dir &&
		(strings.HasSuffix(base, ".log") || strings.HasPrefix(base, "MANIFEST-") || strings.HasPrefix(base, "marker."))
}

// Work in the background that fails is tried again by Pebble, at once and for ever.
// These let it wait in between, and the store stop where it is of no use.
const (
	maxFailures = 8
	firstPause  = 5 * time.Millisecond
)

// failed counts a failure of work in the background, and stops the store when there
// are too many and others wait for that work.
func (f *failStop) failed(err error, awaited bool) {
	n := f.failures.Add(1)
	if awaited && (n >= maxFailures || f.opening.Load()) {
		f.stop(err)
	}
	f.notBefore.Store(time.Now().Add(firstPause << (min(n, maxFailures) - 1)).UnixNano())
}

func (f *failStop) succeeded() {
	f.failures.Store(0)
	f.notBefore.Store(0)
}

// paused reports whether it is too early to try again, or of no use.
func (f *failStop) paused() bool {
	if f.hasStopped() {
		return true
	}
	until := f.notBefore.Load()
	return until != 0 && time.Now().UnixNano() < until
}

// pause waits until it is time to try again.
func (f *failStop) pause() {
	if until := f.notBefore.Load(); until != 0 {
		select {
		case <-time.After(time.Until(time.Unix(0, until))):
		case <-f.stopped:
		}
	}
}

func (f *failStop) wrap(name string, file vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	w := &stopFile{File: file, f: f, vital: f.vital(name), isLog: strings.HasSuffix(name, ".log")}
	f.mu.Lock()
	left := f.open == nil
	if !left {
		f.open[w] = struct{}{}
	}
	f.mu.Unlock()
	if left {
		file.Close()
		select {}
	}
	return w, nil
}

// Create and what follows are the operations of vfs.FS that change the disk.
func (f *failStop) Create(name string, category vfs.DiskWriteCategory) (file vfs.File, err error) {
	if strings.HasSuffix(name, ".sst") {
		f.flushed.Store(true)
		f.pause()
	}
	err = f.change(f.vital(name), func() (err error) {
		file, err = f.FS.Create(name, category)
		return err
	})
	return f.wrap(name, file, err)
}

func (f *failStop) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (file vfs.File, err error) {
	err = f.change(f.vital(name), func() (err error) {
		file, err = f.FS.OpenReadWrite(name, category, opts...)
		return err
	})
	return f.wrap(name, file, err)
}

func (f *failStop) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (file vfs.File, err error) {
	err = f.change(f.vital(newname), func() (err error) {
		file, err = f.FS.ReuseForWrite(oldname, newname, category)
		return err
	})
	return f.wrap(newname, file, err)
}

func (f *failStop) MkdirAll(dir string, perm fs.FileMode) error {
	return f.change(false, func() error { return f.FS.MkdirAll(dir, perm) })
}

func (f *failStop) Link(oldname, newname string) error {
	return f.change(false, func() error { return f.FS.Link(oldname, newname) })
}

func (f *failStop) Remove(name string) error {
	return f.change(false, func() error { return f.FS.Remove(name) })
}

func (f *failStop) RemoveAll(name string) error {
	return f.change(false, func() error { return f.FS.RemoveAll(name) })
}

func (f *failStop) Rename(oldname, newname string) error {
	return f.change(false, func() error { return f.FS.Rename(oldname, newname) })
}

func (f *failStop) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	file, err := f.FS.Open(name, opts...)
	return f.wrap(name, file, f.read(err))
}

func (f *failStop) OpenDir(name string) (vfs.File, error) {
	file, err := f.FS.OpenDir(name)
	if err != nil {
		return nil, f.read(err)
	}
	return &stopDir{file, f}, nil
}

func (f *failStop) List(dir string) ([]string, error) {
	names, err := f.FS.List(dir)
	return names, f.read(err)
}

func (f *failStop) Stat(name string) (vfs.FileInfo, error) {
	info, err := f.FS.Stat(name)
	return info, f.read(err)
}

// Unwrap is for Pebble, which looks for what it knows beneath.
func (f *failStop) Unwrap() vfs.FS { return f.FS }

// stopDir is an open directory.
type stopDir struct {
	vfs.File
	f *failStop
}

func (d *stopDir) Sync() error { return d.f.change(true, d.File.Sync) }

// Close is, once a log was flushed, the first thing that Open does when it fails.
func (d *stopDir) Close() error {
	if d.f.opening.Load() && d.f.flushed.Load() {
		cause := errGivenUp
		if err := d.f.readFail.Load(); err != nil {
			cause = fmt.Errorf("%w: %w", errGivenUp, *err)
		}
		d.f.stop(cause)
		select {}
	}
	return d.File.Close()
}

// stopFile is an open file.
type stopFile struct {
	vfs.File
	f     *failStop
	vital bool

	isLog             bool
	written, reserved int64 // of a log

	reads sync.RWMutex // read-locked by each
	left  bool
}

// leave closes the file under whoever may still read it.
func (w *stopFile) leave() {
	w.reads.Lock()
	defer w.reads.Unlock()
	w.left = true
	w.File.Close()
}

// unlessLeft runs what needs the file to be open. It does not return once Pebble was left
// behind.
func (w *stopFile) unlessLeft(do func()) {
	w.reads.RLock()
	if w.left {
		w.reads.RUnlock()
		select {}
	}
	defer w.reads.RUnlock()
	do()
}

func (w *stopFile) read(do func() (int, error)) (n int, err error) {
	w.unlessLeft(func() { n, err = do() })
	return n, w.f.read(err)
}

// The disk is asked for as much again as a log has, within these bounds: a flush that must
// record new blocks takes about twice as long.
const (
	minReserve = 64 << 10
	maxReserve = 4 << 20
)

// reserve makes room for n more bytes of a log. Without it a write is slower, and right.
func (w *stopFile) reserve(n int) {
	if w.written += int64(n); !w.isLog || w.written <= w.reserved {
		return
	}
	end := w.written + min(max(w.written, minReserve), maxReserve)
	_ = w.File.Preallocate(w.reserved, end-w.reserved)
	w.reserved = end
}

func (w *stopFile) Write(p []byte) (n int, err error) {
	err = w.f.change(w.vital, func() (err error) {
		w.reserve(len(p))
		n, err = w.File.Write(p)
		return err
	})
	return n, err
}

func (w *stopFile) WriteAt(p []byte, offset int64) (n int, err error) {
	err = w.f.change(w.vital, func() (err error) {
		n, err = w.File.WriteAt(p, offset)
		return err
	})
	return n, err
}

func (w *stopFile) Sync() error     { return w.f.change(w.vital, w.File.Sync) }
func (w *stopFile) SyncData() error { return w.f.change(w.vital, w.File.SyncData) }

func (w *stopFile) SyncTo(length int64) (fullSync bool, err error) {
	err = w.f.change(w.vital, func() (err error) {
		fullSync, err = w.File.SyncTo(length)
		return err
	})
	return fullSync, err
}

// Preallocate does nothing: Pebble would make each log as large as a memtable from its first
// byte, where reserve goes with what is written.
func (w *stopFile) Preallocate(offset, length int64) error { return nil }

func (w *stopFile) Prefetch(offset, length int64) (err error) {
	w.unlessLeft(func() { err = w.File.Prefetch(offset, length) })
	return err
}

func (w *stopFile) Stat() (info vfs.FileInfo, err error) {
	w.unlessLeft(func() { info, err = w.File.Stat() })
	if err != nil && w.vital {
		return nil, w.f.change(true, func() error { return err }) // of a log that is used again
	}
	return info, err
}

func (w *stopFile) Read(p []byte) (int, error) {
	return w.read(func() (int, error) { return w.File.Read(p) })
}

func (w *stopFile) ReadAt(p []byte, offset int64) (int, error) {
	return w.read(func() (int, error) { return w.File.ReadAt(p, offset) })
}

func (w *stopFile) Close() error {
	w.f.mu.Lock()
	_, open := w.f.open[w]
	delete(w.f.open, w)
	w.f.mu.Unlock()
	if !open { // leave has closed it
		return nil
	}
	if err := w.File.Close(); err != nil {
		return w.f.change(w.vital, func() error { return err })
	}
	return nil
}
