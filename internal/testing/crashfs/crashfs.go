// Package crashfs is a file system in memory for tests. It can return a copy of the files that a
// crash would leave, at any moment and from any goroutine.
package crashfs

import (
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"
)

// FS is Pebble's MemFS with Link and CrashClone serialized. MemFS.Link takes a read lock twice,
// and deadlocks if CrashClone waits for the lock in between (Pebble 2.1.7).
type FS struct {
	*vfs.MemFS
	links sync.RWMutex
}

// New returns an empty file system.
func New() *FS { return &FS{MemFS: vfs.NewCrashableMem()} }

// Link implements vfs.FS.
func (f *FS) Link(oldname, newname string) error {
	f.links.RLock()
	defer f.links.RUnlock()
	return f.MemFS.Link(oldname, newname)
}

// CrashClone copies the synced data and, as c specifies, some of the unsynced data.
// It must not be called within Link.
func (f *FS) CrashClone(c vfs.CrashCloneCfg) *FS {
	f.links.Lock()
	defer f.links.Unlock()
	return &FS{MemFS: f.MemFS.CrashClone(c)}
}

// Orderly reports whether the MANIFEST exists that the marker in a directory names. Pebble makes
// both durable with one sync of the directory. It relies on the file system to keep the order of
// directory entries. Journals keep it, but a clone with some of the unsynced data may not.
func (f *FS) Orderly(dir string) bool {
	manifest, err := atomicfs.ReadMarker(f, dir, "manifest")
	if err != nil || manifest == "" {
		return true
	}
	_, err = f.Stat(f.PathJoin(dir, manifest))
	return err == nil
}
