package extsort

import (
	"errors"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"
)

var (
	// ErrClosed: the Sorter was closed.
	ErrClosed = errors.New("extsort: closed")

	// ErrSorted: Add or Sorted after Sorted was begun; the records can be read once.
	ErrSorted = errors.New("extsort: the records were read already")
)

// SpillPattern matches the names of spill files (path.Match), for a caller that
// sweeps what a killed process left behind.
const SpillPattern = "extsort-*.spill"

const (
	defaultMemory = 1 << 30
	minMemory     = 1 << 20
)

// Options of a Sorter; the zero value is usable.
type Options struct {
	// MemoryBytes bounds the memory of all buffers together; default 1 GiB, at
	// least 1 MiB. 11/16 of it hold records before they spill, 1/16 is the
	// largest run that Sorted gives: with 16-byte records, 1 GiB keeps 46
	// million in memory, and random ones are distributed once up to a billion.
	MemoryBytes int64

	// Dir is where to spill, made when needed; default os.TempDir().
	Dir string

	// FS holds Dir; default vfs.Default.
	FS vfs.FS
}

func (o Options) withDefaults() Options {
	if o.MemoryBytes <= 0 {
		o.MemoryBytes = defaultMemory
	}
	o.MemoryBytes = max(o.MemoryBytes, minMemory)
	if o.Dir == "" {
		o.Dir = os.TempDir()
	}
	if o.FS == nil {
		o.FS = vfs.Default
	}
	return o
}

// budget divides MemoryBytes.
type budget struct {
	transfer  int64 // bytes of the write buffer, and of the buffer that redistributes
	chunks    int   // in the pool
	chunkLen  int   // records
	bufferLen int   // records in each of sortBuffers
}

// sortBuffers: two goroutines sort with two each, the consumer has the fifth.
const sortBuffers = 5

func (o Options) budget(recordBytes int64) budget {
	transfer := min(o.MemoryBytes/64, 1<<20)
	pool := o.MemoryBytes*11/16 - 2*transfer
	// 256 buckets have one chunk open each, which has to be little of the pool;
	// beyond 16 KiB a larger chunk is no faster, but a shorter list.
	chunk := min(pool/2048, max(16<<10, pool/(64<<10)))
	chunkLen := chunk / recordBytes
	return budget{
		transfer:  transfer / recordBytes * recordBytes,
		chunks:    int(pool / (chunkLen * recordBytes)),
		chunkLen:  int(chunkLen),
		bufferLen: int(o.MemoryBytes / 16 / recordBytes),
	}
}
