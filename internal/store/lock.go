package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
)

// locking is held while a lock is taken and, where that fails, its holder is looked
// up: that closes a file, and with any file that it closes a process loses the lock on it.
var locking sync.Mutex

// lockDir takes the lock of an index, or says who has it.
func lockDir(dir string, fsys *onceLock) (*pebble.Lock, error) {
	locking.Lock()
	defer locking.Unlock()
	lock, err := pebble.LockDirectory(dir, fsys)
	switch {
	case err == nil:
		return lock, nil
	case fsys.FS != ofMachine:
		return nil, fmt.Errorf("%w: %w", ErrLocked, err)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.EROFS), errors.Is(err, syscall.ENOSPC),
		errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return nil, err
	case !errors.As(err, new(syscall.Errno)): // Pebble's own list of what it has locked
		return nil, fmt.Errorf("%w: by this process, %d", ErrLocked, os.Getpid())
	}
	if pid := lockHolder(fsys.PathJoin(dir, "LOCK")); pid > 0 {
		return nil, fmt.Errorf("%w: by process %d%s", ErrLocked, pid, processName(pid))
	}
	return nil, fmt.Errorf("%w: by another process: %w", ErrLocked, err)
}
