// Package extsort sorts fixed-size records, more of them than fit in memory.
//
// A Sorter gives back exactly the records that were added, ascending by their
// first word; records whose first words are equal keep the order in which they
// were added. Its buffers stay within Options.MemoryBytes whatever the values
// are: skewed and equal ones too.
//
// It distributes first and sorts later. Add moves each record to one of 256
// buckets by its top 8 bits; buckets are lists of small chunks from one pool,
// and when the pool is used up all of them are appended to a spill file, one
// extent a bucket. Sorted loads bucket after bucket and sorts each by radix in
// two goroutines ahead of the consumer. A bucket that is larger than a sort
// buffer is distributed again by the highest bits in which its records differ,
// or, when their first words are all equal, passed on as it is. So the work is
// linear in the number of records: spilled records are written and read once,
// and once more for each time that their bucket was too large, at most 8 times.
//
// Spill files are private to the process that wrote them: native byte order, no
// checksum, never synced, and readable by their owner alone. A process that is killed
// leaves them behind, as extsort-*.spill in Options.Dir.
package extsort

import (
	"bufio"
	"context"
	"errors"
	"iter"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/internal/ordered"
	"github.com/neardup/neardup/internal/radix"
)

var (
	errClosed = errors.New("extsort: closed")
	errSorted = errors.New("extsort: the records were read already")
)

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

// Sorter sorts records: any number of Add, one Sorted, Close. It is for one
// goroutine at a time. Dropping one without Close leaves spill files behind.
type Sorter[R radix.Record] struct {
	options    Options
	bufferLen  int // records in each of sortBuffers, at most
	pool       *chunkPool[R]
	root       *partition[R]
	partitions []*partition[R] // that are not removed yet, root first
	writer     *bufio.Writer   // into spill files, one at a time

	len    int64
	failed error                 // why nothing more can be added or read
	pipe   *ordered.Pipe[run[R]] // of a Sorted under way
}

// New returns an empty Sorter. It takes memory as records are added, 4 MiB for
// the first ones, and touches no file before it has to spill.
func New[R radix.Record](opts Options) *Sorter[R] {
	if opts.MemoryBytes <= 0 {
		opts.MemoryBytes = defaultMemory
	}
	opts.MemoryBytes = max(opts.MemoryBytes, minMemory)
	if opts.Dir == "" {
		opts.Dir = os.TempDir()
	}
	if opts.FS == nil {
		opts.FS = vfs.Default
	}
	s := &Sorter[R]{options: opts, bufferLen: int(opts.MemoryBytes / 16 / radix.Bytes[R]())}
	s.pool = newChunkPool[R](opts.MemoryBytes*11/16 - s.writeBuffer())
	s.root = s.newPartition(^uint64(0))
	return s
}

// writeBuffer is how many bytes are written at once.
func (s *Sorter[R]) writeBuffer() int64 { return min(s.options.MemoryBytes/64, 1<<20) }

// Add copies records. After an error, except one of a context that was done
// before, part of them may be missing: the Sorter gives the same error from then
// on. Errors are ctx's and those of the spill file, with its path.
func (s *Sorter[R]) Add(ctx context.Context, records []R) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	s.failed = s.root.add(ctx, records)
	s.len += int64(len(records))
	return s.failed
}

func (s *Sorter[R]) usable(ctx context.Context) error {
	if s.failed != nil {
		return s.failed
	}
	return ctx.Err()
}

// Len is the number of records added.
func (s *Sorter[R]) Len() int64 { return s.len }

// Sorted gives all records in order, as runs of any length but 0; a run is valid
// until the next step and may be written to. It can be ranged over once, after
// the last Add. An error comes with a nil run and is the last: ctx's, or that of a
// spill file, with its path and offset. The memory is freed and the files are removed
// when the loop ends, at its end or before.
func (s *Sorter[R]) Sorted(ctx context.Context) iter.Seq2[[]R, error] {
	return func(yield func([]R, error) bool) {
		defer s.release() // also where the loop panics
		err := s.usable(ctx)
		if s.failed == nil {
			s.failed = errSorted
		}
		if err != nil {
			yield(nil, err)
			return
		}
		r := startRuns(ctx, s)
		s.pipe = r.pipe
		next, ok, err := r.pipe.Next()
		for ok && yield(next.records, nil) {
			r.buffers <- next.buffer
			next, ok, err = r.pipe.Next()
		}
		err = errors.Join(err, s.release())
		if err != nil && !ok {
			yield(nil, err)
		}
	}
}

// Close ends a Sorted under way, waits for all goroutines, frees the memory and
// removes the spill files. It returns an error when a file could not be removed.
// A second Close does nothing.
func (s *Sorter[R]) Close() error {
	s.failed = errClosed
	return s.release()
}

func (s *Sorter[R]) release() error {
	if s.pipe != nil {
		s.pipe.Stop(errClosed)
	}
	var errs []error
	for len(s.partitions) > 0 {
		errs = append(errs, s.removeLast())
	}
	s.pool, s.root, s.writer = nil, nil, nil
	return errors.Join(errs...)
}

// removeLast ends the use of the youngest partition.
func (s *Sorter[R]) removeLast() error {
	last := len(s.partitions) - 1
	p := s.partitions[last]
	s.partitions = s.partitions[:last]
	if p.file == nil {
		return nil
	}
	return p.file.remove()
}
