package extsort

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// extent is a run of bytes in a spill file.
type extent struct{ offset, bytes int64 }

// spillFile is written from start to end, and read after each spill.
type spillFile struct {
	fs   vfs.FS
	path string
	f    file
	size int64
}

type file interface {
	io.Writer
	io.ReaderAt
	io.Closer
}

func createSpillFile(fs vfs.FS, dir string) (*spillFile, error) {
	if err := fs.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("extsort: make the folder for spill files %s: %w", dir, err)
	}
	path := fs.PathJoin(dir, fmt.Sprintf("extsort-%016x.spill", rand.Uint64()))
	f, err := createPrivate(fs, path)
	if err != nil {
		return nil, fmt.Errorf("extsort: create spill file %s: %w", path, err)
	}
	return &spillFile{fs: fs, path: path, f: f}, nil
}

// createPrivate makes a file that others can not read. Pebble's file system of the machine would make one that they can;
// any other is the caller's.
func createPrivate(fs vfs.FS, path string) (file, error) {
	if fs != vfs.Default {
		return fs.Create(path, vfs.WriteCategoryUnspecified)
	}
	return os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
}

func (s *spillFile) writeError(err error) error {
	return fmt.Errorf("extsort: write spill file %s: %w", s.path, err)
}

func (s *spillFile) readAt(data []byte, offset int64) error {
	n, err := s.f.ReadAt(data, offset)
	if n == len(data) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		return fmt.Errorf("extsort: spill file %s was cut short, nothing at byte %d: %w",
			s.path, offset+int64(n), io.ErrUnexpectedEOF)
	}
	return fmt.Errorf("extsort: read spill file %s at byte %d: %w", s.path, offset+int64(n), err)
}

func (s *spillFile) remove() error {
	err := s.f.Close() // before Remove: Windows removes no open file
	if e := s.fs.Remove(s.path); e != nil && err == nil {
		err = e
	}
	if err != nil {
		return fmt.Errorf("extsort: remove spill file %s: %w", s.path, err)
	}
	return nil
}
