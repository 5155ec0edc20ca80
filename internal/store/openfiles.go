package store

import (
	"errors"
	"fmt"
	"runtime"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
)

// Tables are kept open: opening one anew takes several reads. Some files are for what
// else the index has open, and for tables that are about to be closed, which Pebble does
// in the background; of the others half are left to the program that the index is part of.
const (
	mostOpenTables  = 1000
	leastOpenTables = 8
	otherOpenFiles  = 128
)

func openTables(limit uint64) int {
	return int(min((max(limit, otherOpenFiles+2*leastOpenTables)-otherOpenFiles)/2, mostOpenTables))
}

func newFileCache() *pebble.FileCache {
	size := openTables(openFilesLimit())
	return pebble.NewFileCache(min(runtime.GOMAXPROCS(0), size), size)
}

// explainOpenFiles adds to an error of too many open files how many there may be.
func explainOpenFiles(err error) error {
	var explained *openFilesError
	if !errors.Is(err, syscall.EMFILE) || errors.As(err, &explained) {
		return err
	}
	return &openFilesError{err, openFilesLimit()}
}

type openFilesError struct {
	error
	limit uint64
}

func (e *openFilesError) Error() string {
	return fmt.Sprintf("%v: this process may have %d open; raise that limit (ulimit -n)", e.error, e.limit)
}

func (e *openFilesError) Unwrap() error { return e.error }
