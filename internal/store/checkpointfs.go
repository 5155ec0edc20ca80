package store

import (
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// checkpointFS lets what Pebble writes for a checkpoint, which is no part of the store, go
// another way.
type checkpointFS struct {
	vfs.FS
	copying atomic.Pointer[checkpoint] // under way, if any
}

func (f *checkpointFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if c := f.copying.Load(); c.has(name) {
		return c.create(name, category)
	}
	return f.FS.Create(name, category)
}

func (f *checkpointFS) OpenDir(name string) (vfs.File, error) {
	if c := f.copying.Load(); c != nil && (name == c.dir || c.has(name)) {
		return c.openDir(name)
	}
	return f.FS.OpenDir(name)
}

func (f *checkpointFS) Link(oldname, newname string) error {
	if c := f.copying.Load(); c.has(newname) {
		return c.link(oldname, newname)
	}
	return f.FS.Link(oldname, newname)
}

// Unwrap is for Pebble, which looks for what it knows beneath.
func (f *checkpointFS) Unwrap() vfs.FS { return f.FS }
