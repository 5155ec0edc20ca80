// Package crashfs is a file system in memory, for tests, of which a copy can be taken as a crash
// would leave it, at any moment and from any goroutine.
package crashfs

import (
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"
)

// FS is Pebble's, but that Link and CrashClone keep apart: MemFS.Link takes a read lock twice,
// and blocks for ever when CrashClone asks for the lock in between (Pebble 2.1.7).
type FS struct {
	*vfs.MemFS
	links sync.RWMutex
}

// New makes an empty file system.
func New() *FS { return &FS{MemFS: vfs.NewCrashableMem()} }

// Link is for vfs.FS.
func (f *FS) Link(oldname, newname string) error {
	f.links.RLock()
	defer f.links.RUnlock()
	return f.MemFS.Link(oldname, newname)
}

// CrashClone copies what is synced, and of the rest what c says. The caller is not in Link.
func (f *FS) CrashClone(c vfs.CrashCloneCfg) *FS {
	f.links.Lock()
	defer f.links.Unlock()
	return &FS{MemFS: f.MemFS.CrashClone(c)}
}

// Orderly reports whether the MANIFEST that the marker in a folder names is there. Pebble makes
// both durable with one sync of the folder, and so relies on the file system to keep the
// order of names in it, as journals do and a clone with some of what is not synced does not.
func (f *FS) Orderly(dir string) bool {
	manifest, err := atomicfs.ReadMarker(f, dir, "manifest")
	if err != nil || manifest == "" {
		return true
	}
	_, err = f.Stat(f.PathJoin(dir, manifest))
	return err == nil
}
