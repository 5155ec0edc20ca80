//go:build unix

package store

import (
	"errors"
	"io"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/internal/fault"
)

// readOnlyMount is a file system that is mounted read-only.
type readOnlyMount struct{ vfs.FS }

func (readOnlyMount) Lock(name string) (io.Closer, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.EROFS}
}

func TestReadOnlyMount(t *testing.T) {
	dir := t.TempDir()
	if _, err := lockDir(dir, readOnlyMount{vfs.Default}); !errors.Is(err, syscall.EROFS) ||
		errors.Is(err, fault.ErrLocked) || !strings.Contains(err.Error(), "copy the index") {
		t.Error(err)
	}
}
