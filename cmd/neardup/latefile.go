package main

import (
	"errors"
	"os"
)

// lateFile is an output file that keeps what it has until the first write: it may be the
// input too, which is read whole before that, and stays as it is when that fails.
type lateFile struct {
	file    *os.File
	made    bool // there was none
	written bool
}

// openLate opens a file, so that one which cannot be written to fails before the work.
func openLate(name string) (*lateFile, error) {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err == nil {
		return &lateFile{file: file, made: true}, nil
	}
	if file, err = os.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o666); err != nil {
		return nil, err
	}
	return &lateFile{file: file}, nil
}

func (f *lateFile) Write(p []byte) (int, error) {
	if err := f.empty(); err != nil {
		return 0, err
	}
	return f.file.Write(p)
}

// empty drops what was there; a pipe or a device has nothing to drop.
func (f *lateFile) empty() error {
	if f.written {
		return nil
	}
	f.written = true
	if info, err := f.file.Stat(); err != nil || !info.Mode().IsRegular() {
		return err
	}
	return f.file.Truncate(0)
}

// close ends the file, which is empty if nothing was written and nothing went wrong. It is
// gone if it was made for nothing.
func (f *lateFile) close(failed error) error {
	if failed != nil {
		err := f.file.Close()
		if f.made && !f.written {
			err = errors.Join(err, os.Remove(f.file.Name()))
		}
		return err
	}
	return errors.Join(f.empty(), f.file.Close())
}
