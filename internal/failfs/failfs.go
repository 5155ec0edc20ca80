// Package failfs stands between Pebble and the file system, for what Pebble does not survive. Where its log,
// its MANIFEST, a marker or a directory cannot be written, Pebble ends the process, as what is on the disk is
// not known from there on; where its Open fails late, it uses what it has just freed; and work in the
// background that fails it tries again at once, for ever.
//
// It guarantees that none of that reaches the program. A call of Pebble's that meets such an error does not
// return, and nothing changes the disk after it: the database has stopped. Reads go on, by what Pebble has
// in memory. The program calls Pebble through Do, which returns fault.ErrFailed once the database has stopped,
// whatever Pebble waits for. Once it is abandoned (CloseDB) another process, or this one, can open the directory again.
//
// All of it leans on what Pebble does and does not promise; TestPebbleVersion lists what to look at again
// with another version of it.
package failfs

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
	"github.com/neardup/neardup/internal/fault"
)

// FS is the file system of one Pebble database.
type FS struct {
	vfs.FS
	dir  string
	tell func(error) // is told the cause, before stopped is closed

	stopped chan struct{}
	once    sync.Once
	cause   error // once stopped is closed

	ending  chan struct{} // closed when Pebble is about to be closed, or abandoned
	endOnce sync.Once

	opening  atomic.Bool
	excising atomic.Bool
	excision sync.RWMutex          // locked while Pebble excises, for ever where that never returns
	moments  atomic.Uint64         // flushes, compactions and excisions that ended
	closing  sync.WaitGroup        // iterators that are closed later
	flushed  atomic.Bool           // since Open began
	readFail atomic.Pointer[error] // the first failed read of Open

	retry  retry
	stalls stalls
	copied atomic.Pointer[copied] // the copy under way, if any
	writes sync.RWMutex           // read-locked by each operation that changes the disk

	callers callers // of Do

	mu   sync.Mutex
	open map[*file]struct{} // nil once Pebble is abandoned
	made []string           // by Open: tables and MANIFESTs that no marker leads to
	led  bool               // a marker may lead to what Open has made
}

// New returns the file system for the database in dir. failed is told why it stops, when it does.
func New(fsys vfs.FS, dir string, failed func(error)) *FS {
	f := &FS{FS: fsys, dir: dir, tell: failed, stopped: make(chan struct{}), ending: make(chan struct{}), open: make(map[*file]struct{})}
	f.opening.Store(true)
	return f
}

// Do calls Pebble. Where the database has stopped, or stops meanwhile, it returns ErrFailed: the call may
// never end. A call under way gets patience to end before that.
func (f *FS) Do(patience time.Duration, call func() error) error {
	if err := f.Err(); err != nil {
		return err
	}
	c := f.callers.take()
	c.calls <- call
	select {
	case err := <-c.done:
		f.callers.give(c)
		return err
	case <-f.stopped:
	}
	close(c.calls) // nothing more for it, should the call end
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case err := <-c.done:
		return err
	case <-timer.C:
	}
	select { // with no patience both may be ready
	case err := <-c.done:
		return err
	default:
		return f.Err()
	}
}

// caller is a goroutine that calls Pebble. A new one for every call would have its stack grow each time, which
// costs a short commit a twentieth.
type caller struct {
	calls chan func() error
	done  chan error
}

// callers are those that wait for the next call.
type callers struct {
	mu    sync.Mutex
	idle  []*caller
	ended bool
}

const maxIdleCallers = 8

func (cs *callers) take() *caller {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if last := len(cs.idle) - 1; last >= 0 {
		c := cs.idle[last]
		cs.idle = cs.idle[:last]
		return c
	}
	c := &caller{make(chan func() error), make(chan error, 1)}
	go func() {
		for call := range c.calls {
			c.done <- call()
		}
	}()
	return c
}

// give takes back one whose call has ended.
func (cs *callers) give(c *caller) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.ended || len(cs.idle) == maxIdleCallers {
		close(c.calls)
		return
	}
	cs.idle = append(cs.idle, c)
}

// end keeps no one waiting any more.
func (cs *callers) end() {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.ended = true
	for _, c := range cs.idle {
		close(c.calls)
	}
	cs.idle = nil
}

// Err returns ErrFailed with the cause, if the database has stopped.
func (f *FS) Err() error {
	if !f.hasStopped() {
		return nil
	}
	return fmt.Errorf("%w: %w", fault.ErrFailed, f.cause)
}

// Excise calls Pebble's IngestAndExcise. Pebble takes a table that it cannot read for empty. So a read that
// fails stops the database, before Pebble can write the result to the MANIFEST: that write never returns.
// The read itself returns its error: it may be of another goroutine, which holds a slot of the file cache
// that readers wait for.
func (f *FS) Excise(call func() error) error {
	f.excision.Lock()
	defer f.excision.Unlock()
	f.excising.Store(true)
	defer f.excising.Store(false)
	defer f.moments.Add(1)
	return call()
}

// Moment changes whenever files of the database may have become obsolete.
func (f *FS) Moment() uint64 { return f.moments.Load() }

// CloseIteratorLater is CloseIterator for an iterator of an earlier Moment, which may be the last of it: whoever closes that
// one takes the blocks of all obsolete files out of Pebble's cache, and between them lets every other goroutine run
// first. CloseDB waits for it.
func (f *FS) CloseIteratorLater(it io.Closer) {
	f.closing.Go(func() { _ = f.CloseIterator(it) }) // what went wrong with it, its methods have said
}

// CloseIterator closes an iterator of Pebble. The last one of its moment needs Pebble's lock; where the database stops
// while Pebble excises, what the iterator holds stays as it is until the process ends.
func (f *FS) CloseIterator(it io.Closer) error {
	if f.excision.TryRLock() {
		defer f.excision.RUnlock()
		return it.Close()
	}
	if err := f.Do(0, it.Close); !errors.Is(err, fault.ErrFailed) {
		return err
	}
	return nil
}

// abandon waits for the operations under way and closes every file, so that the directory can be opened
// again. Nothing may read any more. Pebble's goroutines and what it has in memory stay as they are until the
// process ends, and can do no harm.
func (f *FS) abandon() {
	f.end()
	f.writes.Lock()
	defer f.writes.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	for file := range f.open {
		file.abandon()
	}
	f.open = nil
}

// sweep removes what an Open has made that failed before anything led to it. Pebble does so only where Open
// goes well, and one that is tried again and again on a full disk would take all the room that is made for it.
func (f *FS) sweep() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.led {
		return
	}
	for _, name := range f.made {
		_ = f.FS.Remove(name) // what is left takes space, and does no harm
	}
}

// Stop stops the database, as a write does that fails: nothing changes the disk from now on.
func (f *FS) Stop(cause error) {
	f.once.Do(func() {
		f.cause = cause
		f.tell(cause)
		close(f.stopped)
	})
}

func (f *FS) hasStopped() bool {
	select {
	case <-f.stopped:
		return true
	default:
		return false
	}
}

// end lets nothing wait for its time any more.
func (f *FS) end() {
	f.endOnce.Do(func() {
		close(f.ending)
		f.callers.end()
	})
}

// change runs what changes the disk. An error that Pebble would not survive stops the
// database, and change then never returns, nor does any call after it.
func (f *FS) change(fatal bool, do func() error) error {
	f.writes.RLock()
	if f.hasStopped() {
		f.writes.RUnlock()
		select {}
	}
	err := do()
	f.writes.RUnlock()
	if err != nil && (fatal || f.opening.Load() && !errors.Is(err, fs.ErrNotExist)) {
		f.Stop(err)
		select {}
	}
	return err
}

// read notes the error of a read while Pebble opens, for it to be known when Open
// comes to nothing, and stops the database at one while Pebble excises.
func (f *FS) read(err error) error {
	if err == nil || err == io.EOF || errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if f.opening.Load() {
		f.readFail.CompareAndSwap(nil, &err)
	}
	if f.excising.Load() {
		f.Stop(err)
	}
	return err
}

// vital tells the files without which Pebble does not go on.
func (f *FS) vital(name string) bool {
	base := f.PathBase(name)
	return f.PathDir(name) == f.dir &&
		(strings.HasSuffix(base, ".log") || strings.HasPrefix(base, "MANIFEST-") || strings.HasPrefix(base, "marker."))
}

// note notes what Open is about to make.
func (f *FS) note(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch base := f.PathBase(name); {
	case strings.HasPrefix(base, "marker."):
		f.led = true
	case strings.HasSuffix(base, ".sst"), strings.HasPrefix(base, "MANIFEST-"):
		f.made = append(f.made, name)
	}
}

// create runs an operation that opens a file for writing.
func (f *FS) create(name string, do func() (vfs.File, error)) (vfs.File, error) {
	if err := f.copied.Load().check(name); err != nil {
		return nil, err
	}
	var made vfs.File
	err := f.change(f.vital(name), func() (err error) {
		made, err = do()
		return err
	})
	return f.wrap(name, true, made, err)
}

// Create and what follows are the operations of vfs.FS that change the disk.
func (f *FS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if strings.HasSuffix(name, ".sst") && f.PathDir(name) == f.dir {
		f.flushed.Store(true)
		f.retry.wait(f.stopped)
	}
	if f.opening.Load() {
		f.note(name)
	}
	return f.create(name, func() (vfs.File, error) { return f.FS.Create(name, category) })
}

func (f *FS) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return f.create(name, func() (vfs.File, error) { return f.FS.OpenReadWrite(name, category, opts...) })
}

func (f *FS) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return f.create(newname, func() (vfs.File, error) { return f.FS.ReuseForWrite(oldname, newname, category) })
}

func (f *FS) Link(oldname, newname string) error {
	c := f.copied.Load()
	if err := c.check(newname); err != nil {
		return err
	}
	return c.link(newname, f.change(false, func() error { return f.FS.Link(oldname, newname) }))
}

// MkdirAll makes directories that only their owner can read, whatever mode Pebble asks for.
func (f *FS) MkdirAll(dir string, _ fs.FileMode) error {
	return f.change(false, func() error { return f.FS.MkdirAll(dir, 0o700) })
}

func (f *FS) Remove(name string) error {
	return f.change(false, func() error { return f.FS.Remove(name) })
}

func (f *FS) RemoveAll(name string) error {
	return f.change(false, func() error { return f.FS.RemoveAll(name) })
}

func (f *FS) Rename(oldname, newname string) error {
	return f.change(false, func() error { return f.FS.Rename(oldname, newname) })
}

func (f *FS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	opened, err := f.FS.Open(name, opts...)
	if err != nil {
		return nil, f.read(err)
	}
	return f.wrap(name, false, f.withoutRoom(name, opened), nil)
}

func (f *FS) OpenDir(name string) (vfs.File, error) {
	opened, err := f.FS.OpenDir(name)
	if err != nil {
		return nil, f.read(err)
	}
	return &dir{opened, f, f.copied.Load().of(name)}, nil
}

func (f *FS) List(dir string) ([]string, error) {
	names, err := f.FS.List(dir)
	return names, f.read(err)
}

func (f *FS) Stat(name string) (vfs.FileInfo, error) {
	info, err := f.FS.Stat(name)
	return info, f.read(err)
}

// GetDiskUsage hides the reason for an error: Pebble then uses the last result, and reports nothing.
func (f *FS) GetDiskUsage(path string) (vfs.DiskUsage, error) {
	usage, err := f.FS.GetDiskUsage(path)
	if err != nil {
		return usage, vfs.ErrUnsupported
	}
	return usage, nil
}

// Unwrap is for Pebble, which looks for what it knows beneath.
func (f *FS) Unwrap() vfs.FS { return f.FS }
