package compaction

import (
	"fmt"
	"log/slog"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/internal/extsort"
	"github.com/neardup/neardup/internal/plan"
	"github.com/neardup/neardup/store"
)

// Options of Run and Compact. The zero value is ready to use.
type Options struct {
	// Plan rewrites the closed index of Run under another plan, of any MaxDistance. nil: its own.
	Plan *plan.Plan

	// MemoryBytes bounds the memory for sorting; what does not fit goes to temporary
	// files in the index. 0: 1 GiB.
	MemoryBytes int64

	// FilterBytes bounds the prefix filters of all tables together, as
	// index.Options has it.
	FilterBytes int64

	CacheBytes int64 // as index.Options has it

	// Progress, if set, is called now and then, from several goroutines. It must not close the index of Compact:
	// that waits for it.
	Progress func(Progress)

	gently bool // on one core

	FS     vfs.FS       // nil: the machine's file system
	Logger *slog.Logger // nil: none
}

// Progress tells how far the work has come.
type Progress struct {
	Stage string
	Done  uint64
	Total uint64 // 0: not known
}

// tellEvery is the number of documents or entries between two calls of Progress.
const tellEvery = 1 << 16

// The stages, in their order. Not all work has all of them.
const (
	StageRead    = "read"    // documents are taken in
	StageMerge   = "merge"   // table 0 is written
	StageTables  = "tables"  // the other tables are
	StageRecords = "records" // what is beside the tables is compacted
)

const (
	defaultMemoryBytes = 1 << 30
	leastMemoryBytes   = 1 << 20
)

// sorting are the options of one of several sorters that share half of the memory.
func (o *Options) sorting(r *store.Rewrite, among int) extsort.Options {
	return extsort.Options{MemoryBytes: o.memoryBytes() / 2 / int64(among), Dir: r.Dir(), FS: r.FS()}
}

// check refuses what has no meaning.
func (o *Options) check() error {
	switch {
	case o.MemoryBytes < 0:
		return fmt.Errorf("MemoryBytes is %d, want 0 for the default, or more", o.MemoryBytes)
	case o.CacheBytes < 0:
		return fmt.Errorf("CacheBytes is %d, want 0 for the default, or more", o.CacheBytes)
	}
	return nil
}

// packers is how many tables are packed side by side. Sorting goes on beside each.
func (o *Options) packers() int {
	if o.gently {
		return 1
	}
	return 2
}

func (o *Options) memoryBytes() int64 {
	if o.MemoryBytes != 0 {
		return max(o.MemoryBytes, leastMemoryBytes) // shared out, it must not become 0
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
