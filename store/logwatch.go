package store

import (
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// watchedFS lets what Pebble writes for a checkpoint, which is no part of the store, go
// another way.
type watchedFS struct {
	vfs.FS
	copying atomic.Pointer[checkpoint] // under way, if any
}

func (w *watchedFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if c := w.copying.Load(); c.has(name) {
		return c.create(name, category)
	}
	return w.FS.Create(name, category)
}

func (w *watchedFS) OpenDir(name string) (vfs.File, error) {
	if c := w.copying.Load(); c != nil && (name == c.dir || c.has(name)) {
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
