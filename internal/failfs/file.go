package failfs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/internal/fault"
)

// errGivenUp: Pebble's Open failed for a reason that only Pebble knows.
var errGivenUp = errors.New("the store beneath could not be opened")

// dir is an open directory.
type dir struct {
	vfs.File
	f      *FS
	copied *copied // it is one of a copy; nil: of the database
}

// Sync of a directory of a copy keeps its error for later: Pebble panics where a marker cannot be
// made durable, as it cannot know then what a database of its own is.
func (d *dir) Sync() error {
	if d.copied != nil {
		d.copied.unsynced = errors.Join(d.copied.unsynced, d.File.Sync())
		return nil
	}
	return d.f.change(true, d.File.Sync)
}

// Close is, once a log was flushed, the first thing that Open does when it fails.
func (d *dir) Close() error {
	if d.f.opening.Load() && d.f.flushed.Load() {
		cause := errGivenUp
		if err := d.f.readFail.Load(); err != nil {
			cause = fmt.Errorf("%w: %w", errGivenUp, *err)
		}
		d.f.Stop(cause)
		select {}
	}
	return d.File.Close()
}

// file is an open file.
type file struct {
	vfs.File
	f      *FS
	vital  bool
	copied *copied // it is one of a copy; nil: of the database

	log      string       // its name, if it is a log that is written
	written  atomic.Int64 // of it
	reserved int64        // of the log, with what is not written yet
	syncs    int64        // since room was made for more

	reads     sync.RWMutex // read-locked by each
	abandoned bool
}

func (f *FS) wrap(name string, writes bool, opened vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	vital := f.vital(name)
	w := &file{File: opened, f: f, vital: vital, copied: f.copied.Load().of(name)}
	if writes && vital && strings.HasSuffix(name, ".log") {
		w.log = name
	}
	f.mu.Lock()
	abandoned := f.open == nil
	if !abandoned {
		f.open[w] = struct{}{}
	}
	f.mu.Unlock()
	if abandoned {
		opened.Close()
		select {}
	}
	return w, nil
}

// abandon closes the file under whoever may still read it.
func (w *file) abandon() {
	w.reads.Lock()
	defer w.reads.Unlock()
	w.abandoned = true
	w.File.Close()
}

// whileOpen runs what needs the file to be open. It does not return once Pebble was abandoned.
func (w *file) whileOpen(do func()) {
	w.reads.RLock()
	if w.abandoned {
		w.reads.RUnlock()
		select {}
	}
	defer w.reads.RUnlock()
	do()
}

// A log gets room for as much again as it has, within these bounds: a flush that must record new blocks, or another
// length, takes more than twice as long.
const (
	minReserve = 64 << 10
	maxReserve = 1 << 20
)

// reserve makes room for n more bytes of a log: of zeros where it is often flushed, else of blocks only. Without
// it a write is slower, and right.
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

// withoutRoom cuts what is read of a log, if it is being written, to what is written now. Who copied the zeros behind that,
// and then what was written over those that follow, would have a log that is damaged in the middle.
func (f *FS) withoutRoom(name string, opened vfs.File) vfs.File {
	if !f.vital(name) { // a table, of which many may be open
		return opened
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for w := range f.open {
		if w.log == name {
			return limitedFile{opened, io.LimitReader(opened, w.written.Load())}
		}
	}
	return opened
}

// limitedFile is a file up to a place.
type limitedFile struct {
	vfs.File
	limited io.Reader
}

func (s limitedFile) Read(p []byte) (n int, err error) { return s.limited.Read(p) }

// Preallocate does nothing: Pebble would make each log as large as a memtable from its first
// byte, where reserve goes with what is written.
func (w *file) Preallocate(offset, length int64) error { return nil }

func (w *file) change(do func() error) error { return w.f.change(w.vital, do) }

func (w *file) Write(p []byte) (n int, err error) {
	if w.copied != nil && w.copied.ctx.Err() != nil {
		return 0, w.copied.ctx.Err()
	}
	err = w.change(func() (err error) {
		w.reserve(len(p))
		n, err = w.File.Write(p)
		w.written.Add(int64(n))
		return err
	})
	return n, err
}

func (w *file) WriteAt(p []byte, offset int64) (n int, err error) {
	err = w.change(func() (err error) {
		n, err = w.File.WriteAt(p, offset)
		return err
	})
	return n, err
}

func (w *file) Sync() error { return w.change(w.File.Sync) }

func (w *file) SyncData() error {
	w.syncs++
	return w.change(w.File.SyncData)
}

func (w *file) SyncTo(length int64) (fullSync bool, err error) {
	err = w.change(func() (err error) {
		fullSync, err = w.File.SyncTo(length)
		return err
	})
	return fullSync, err
}

func (w *file) Read(p []byte) (n int, err error) {
	w.whileOpen(func() { n, err = w.File.Read(p) })
	return n, w.f.read(err)
}

func (w *file) ReadAt(p []byte, offset int64) (n int, err error) {
	w.whileOpen(func() { n, err = w.File.ReadAt(p, offset) })
	return n, w.f.read(err)
}

func (w *file) Prefetch(offset, length int64) (err error) {
	w.whileOpen(func() { err = w.File.Prefetch(offset, length) })
	return err
}

func (w *file) Stat() (info vfs.FileInfo, err error) {
	w.whileOpen(func() { info, err = w.File.Stat() })
	if err != nil && w.vital {
		return nil, w.change(func() error { return err }) // of a log that is used again
	}
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
		return w.change(func() error { return err })
	}
	return nil
}

// copied is a copy of the database that is being made beside it. What cannot be written there is no loss to
// the database.
type copied struct {
	ctx      context.Context
	f        *FS
	dirs     []string
	unsynced error // of a directory that could not be synced
}

// Copy calls what copies the database into one of the directories. Once ctx ends, nothing more is written
// there. When it returns nothing more will be, whatever Pebble is at.
func (f *FS) Copy(ctx context.Context, do func() error, dirs ...string) error {
	c := &copied{ctx: ctx, f: f, dirs: dirs}
	f.copied.Store(c)
	err := do()
	f.copied.Store(nil)
	if errors.Is(err, fault.ErrFailed) {
		f.writes.Lock()
		f.writes.Unlock() //lint:ignore SA2001 it waits for the operations under way
		return err
	}
	return errors.Join(err, c.unsynced)
}

// of returns the copy if a file or directory is part of it, or else nil.
func (c *copied) of(name string) *copied {
	if c != nil {
		for _, dir := range c.dirs {
			if name == dir || c.f.PathDir(name) == dir {
				return c
			}
		}
	}
	return nil
}

func (c *copied) check(name string) error {
	if c = c.of(name); c == nil {
		return nil
	}
	return c.ctx.Err()
}

// link says why a file of a copy cannot be linked. Pebble does not copy what may not be
// linked, though there are file systems that answer so where they know no links.
func (c *copied) link(name string, err error) error {
	if c.of(name) != nil && errors.Is(err, fs.ErrPermission) {
		return errNoLinks
	}
	return err
}

var errNoLinks = errors.New("no link can be made")
