package process

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// KeepLock locks a file a second time, by flock: a lock of fcntl is lost when the process closes the file anywhere, as one
// that copies a folder does. Where the file system has no such lock it does nothing.
func KeepLock(path string) (release func() error, err error) {
	f, err := os.Open(path) // for reading: NFS makes a lock of fcntl of it, and refuses that
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		f.Close()
		return nil, err
	}
	return func() error {
		unix.Flock(int(f.Fd()), unix.LOCK_UN) // also for a child that is about to be another program
		return f.Close()
	}, nil
}
