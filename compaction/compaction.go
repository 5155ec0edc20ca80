// Package compaction works over an index that no one writes to.
//
// It guarantees that the documents of an index, and the answers to every query,
// are the same before and after, wherever the work is cut short.
package compaction

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/store"
)

// Options of Run. The zero value is ready to use.
type Options struct {
	CacheBytes int64        // as index.Options has it
	FS         vfs.FS       // nil: the machine's file system
	Logger     *slog.Logger // nil: none
}

// Report is what Run did.
type Report struct {
	Documents   uint64 `json:"documents"`
	BytesBefore uint64 `json:"bytesBefore"` // on disk, with the write-ahead log
	BytesAfter  uint64 `json:"bytesAfter"`
}

// Run compacts the index in dir, which must exist and must not be open: the space of
// deleted and replaced documents comes back, and queries find every table in one
// piece. It takes time in proportion to the size of the index, and up to as much
// free disk as the index has. Errors as of index.Open, ctx's, and those of the
// file system.
func Run(ctx context.Context, dir string, opts Options) (report Report, err error) {
	if opts.FS == nil {
		opts.FS = vfs.Default
	}
	if report.BytesBefore, err = size(dir, opts.FS); err != nil {
		return Report{}, fmt.Errorf("compact index %s: %w", dir, err)
	}
	s, err := store.Open(dir, store.Options{CacheBytes: opts.CacheBytes, FS: opts.FS, Logger: opts.Logger})
	if err != nil {
		return Report{}, err
	}
	report.Documents = s.Counters().Documents
	_, err = index.ParsePlan(s.Header().Plan)
	if err == nil {
		err = s.Compact(ctx)
	}
	if err = errors.Join(err, s.Close()); err != nil {
		return Report{}, fmt.Errorf("compact index %s: %w", dir, err)
	}
	report.BytesAfter, err = size(dir, opts.FS)
	return report, err
}

// size adds up the files of a closed index. An open one still counts files that are
// about to be deleted.
func size(dir string, fsys vfs.FS) (bytes uint64, err error) {
	names, err := fsys.List(dir)
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		info, err := fsys.Stat(fsys.PathJoin(dir, name))
		if err != nil {
			return 0, err
		}
		bytes += uint64(info.Size())
	}
	return bytes, nil
}
