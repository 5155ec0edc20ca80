package store

import (
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// privateFS is the file system of the machine, where what is made anew belongs to the user alone: what
// was crawled is in it. Files are 0600 and folders 0700. What is there stays as it is.
type privateFS struct{ vfs.FS }

// Create removes what there is, as vfs.Default does, which would also make the file with the mode that
// umask leaves.
func (p *privateFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := makePrivate(name); err != nil {
		return nil, err
	}
	return p.FS.OpenReadWrite(name, category)
}

func (p *privateFS) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	if err := makePrivate(name); err != nil {
		return nil, err
	}
	return p.FS.OpenReadWrite(name, category, opts...)
}

func (p *privateFS) Lock(name string) (io.Closer, error) {
	if err := makePrivate(name); err != nil {
		return nil, err
	}
	return p.FS.Lock(name)
}

func (p *privateFS) MkdirAll(dir string, _ fs.FileMode) error {
	return p.FS.MkdirAll(dir, 0o700)
}

// Unwrap is for Pebble, which looks for what it knows beneath.
func (p *privateFS) Unwrap() vfs.FS { return p.FS }

// makePrivate makes an empty file where there is none.
func makePrivate(name string) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return f.Close()
}

// ofMachine is the file system of every index that is given none.
var ofMachine vfs.FS = &privateFS{vfs.Default}

// fileSystem returns the file system that is meant by one in Options.
func fileSystem(fsys vfs.FS) vfs.FS {
	if fsys == nil || fsys == vfs.Default {
		return ofMachine
	}
	return fsys
}
