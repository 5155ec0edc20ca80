package bench

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// dropPageCache asks the system to forget what it holds in memory of the files in a
// folder. It may be asked for one's own files without privileges.
func dropPageCache(dir string) error {
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		return err
	}
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		info, err := f.Stat()
		if err == nil && info.Mode().IsRegular() {
			err = errors.Join(f.Sync(), unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED))
		}
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	return nil
}
