package store

import (
	"strings"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// watchedFS tells of the first write to Pebble's log that fails. Pebble itself tells
// only who waits for a sync; the next write that it is given panics, with locks held,
// so that a full disk would end the process. What Pebble writes for a checkpoint is no
// part of the store, and goes another way.
type watchedFS struct {
	vfs.FS
	failed  func(error) error
	copying atomic.Pointer[checkpoint] // under way, if any
}

func (w *watchedFS) watch(name string, f vfs.File, err error) (vfs.File, error) {
	if err != nil || !strings.HasSuffix(name, ".log") {
		return f, err
	}
	return watchedLog{f, w.failed}, nil
}

func (w *watchedFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if c := w.copying.Load(); c.has(name) {
		return c.create(name, category)
	}
	f, err := w.FS.Create(name, category)
	return w.watch(name, f, err)
}

func (w *watchedFS) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := w.FS.ReuseForWrite(oldname, newname, category)
	return w.watch(newname, f, err)
}

func (w *watchedFS) OpenDir(name string) (vfs.File, error) {
	if c := w.copying.Load(); c.has(name) {
		return c.openDir(name)
	}
	return w.FS.OpenDir(name)
}

func (w *watchedFS) Link(oldname, newname string) error {
	if c := w.copying.Load(); c.has(newname) {
		return c.link(oldname, newname)
	}
	return w.FS.Link(oldname, newname)
}

// Unwrap is for Pebble, which looks for what it knows beneath.
func (w *watchedFS) Unwrap() vfs.FS { return w.FS }

type watchedLog struct {
	vfs.File
	failed func(error) error
}

func (f watchedLog) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	return n, f.failed(err)
}

func (f watchedLog) Sync() error     { return f.failed(f.File.Sync()) }
func (f watchedLog) SyncData() error { return f.failed(f.File.SyncData()) }

func (f watchedLog) SyncTo(length int64) (fullSync bool, err error) {
	fullSync, err = f.File.SyncTo(length)
	return fullSync, f.failed(err)
}
