package compaction

import (
	"fmt"
	"log/slog"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/extsort"
	"github.com/neardup/neardup/store"
)

// Options configures Run and Compact. The zero value is ready to use.
type Options struct {
	// Plan is the new plan of the index, with any MaxDistance. nil: the plan does not change. Only
	// Run accepts a Plan.
	Plan *index.Plan

	// MemoryBytes bounds the memory for sorting. Data that does not fit is written to temporary
	// files in the directory of the index. 0: 1 GiB.
	MemoryBytes int64

	// FilterBytes bounds the filters of all tables together, as in index.Options.
	FilterBytes int64

	CacheBytes int64 // as in index.Options

	// Progress, if set, is called from time to time, by several goroutines. It must not close the
	// index of Compact, since Close waits for Compact.
	Progress func(Progress)

	gently bool // use one core

	FS     vfs.FS       // nil: the file system of the machine
	Logger *slog.Logger // nil: none
}

// Progress describes how much of the work is done.
type Progress struct {
	Stage string
	Done  uint64
	Total uint64 // 0: unknown
}

// tellEvery is the number of documents or entries between two calls of Progress.
const tellEvery = 1 << 16

// Stages of Progress, in order. Most calls have only some of them.
const (
	StageRead    = "read"    // documents are read
	StageMerge   = "merge"   // table 0 is written
	StageTables  = "tables"  // the other tables are written
	StageRecords = "records" // records and keys are compacted
)

const (
	defaultMemoryBytes = 1 << 30
	leastMemoryBytes   = 1 << 20
)

// sorting returns the options of one sorter. All sorters together have half of the memory.
func (o *Options) sorting(r *store.Rewrite, sorters int) extsort.Options {
	return extsort.Options{MemoryBytes: o.memoryBytes() / 2 / int64(sorters),
		Dir: r.Dir(), FS: r.FS()}
}

// check returns an error for an invalid value.
func (o *Options) check() error {
	switch {
	case o.MemoryBytes < 0:
		return fmt.Errorf("MemoryBytes is %d, want 0 for the default, or more", o.MemoryBytes)
	case o.CacheBytes < 0:
		return fmt.Errorf("CacheBytes is %d, want 0 for the default, or more", o.CacheBytes)
	}
	return nil
}

// packers returns the number of tables that are packed concurrently.
func (o *Options) packers() int {
	if o.gently {
		return 1
	}
	return 2
}

func (o *Options) memoryBytes() int64 {
	if o.MemoryBytes != 0 {
		return max(o.MemoryBytes, leastMemoryBytes) // the shares must not be 0
	}
	return defaultMemoryBytes
}

func (o *Options) fs() vfs.FS {
	if o.FS != nil {
		return o.FS
	}
	return vfs.Default
}

func (o *Options) progress(p Progress) {
	if o.Progress != nil {
		o.Progress(p)
	}
}
