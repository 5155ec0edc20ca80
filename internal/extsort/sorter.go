package extsort

import (
	"context"
	"errors"
	"iter"
	"sync"
	"sync/atomic"

	"github.com/neardup/neardup/internal/ordered"
)

// Sorter sorts records: any number of Add, one Sorted, Close. It is for one
// goroutine at a time. Dropping one without Close leaves spill files behind.
type Sorter[R Record] struct {
	options Options
	budget  budget
	pool    *chunkPool[R]
	root    *partition[R]
	len     int64
	failed  error // the first error; what was added since is incomplete

	partitions []*partition[R] // not yet removed
	transfer   []byte          // the write buffer of all spill files: only one is written at a time

	begun   bool
	closed  bool
	stopped atomic.Bool           // tells spills to end
	pipe    *ordered.Pipe[run[R]] // of a Sorted under way
	spills  sync.WaitGroup
}

// New returns an empty Sorter. It takes memory as records are added, 4 MiB for
// the first ones, and touches no file before it has to spill.
func New[R Record](opts Options) *Sorter[R] {
	s := &Sorter[R]{options: opts.withDefaults()}
	s.budget = s.options.budget(recordBytes[R]())
	s.pool = newChunkPool[R](s.budget)
	s.root = s.newPartition(^uint64(0))
	return s
}

// Add copies records. After an error, except one of a context that was done
// before, part of them may be missing: the Sorter gives the same error from then
// on. Errors: ctx's, ErrClosed, ErrSorted, those of the spill file with its path.
func (s *Sorter[R]) Add(ctx context.Context, records []R) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	if err := s.root.add(ctx, records); err != nil {
		s.failed = err
		return err
	}
	s.len += int64(len(records))
	return nil
}

func (s *Sorter[R]) usable(ctx context.Context) error {
	switch {
	case s.closed:
		return ErrClosed
	case s.begun:
		return ErrSorted
	case s.failed != nil:
		return s.failed
	}
	return ctx.Err()
}

// Len is the number of records added.
func (s *Sorter[R]) Len() int64 { return s.len }

// Sorted gives all records in order, as runs of any length but 0; a run is valid
// until the next step and may be written to. It can be ranged over once, after
// the last Add. An error comes with a nil run and is the last: ctx's, ErrClosed,
// ErrSorted, those of the spill files with path and offset. The memory is freed
// and the files are removed when the loop ends, at its end or before.
func (s *Sorter[R]) Sorted(ctx context.Context) iter.Seq2[[]R, error] {
	return func(yield func([]R, error) bool) {
		if err := s.usable(ctx); err != nil {
			yield(nil, err)
			return
		}
		s.begun = true
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
	s.closed = true
	return s.release()
}

func (s *Sorter[R]) release() error {
	s.stopped.Store(true)
	if s.pipe != nil {
		s.pipe.Stop(ErrClosed)
	}
	s.spills.Wait()
	var errs []error
	for len(s.partitions) > 0 {
		errs = append(errs, s.remove(s.partitions[len(s.partitions)-1]))
	}
	s.pool, s.root, s.transfer = nil, nil, nil
	return errors.Join(errs...)
}

// remove ends the use of the youngest partition.
func (s *Sorter[R]) remove(p *partition[R]) error {
	s.partitions = s.partitions[:len(s.partitions)-1]
	if p.file == nil {
		return nil
	}
	return p.file.remove()
}

func (s *Sorter[R]) createSpillFile() (*spillFile, error) {
	if s.transfer == nil {
		s.transfer = make([]byte, s.budget.transfer)
	}
	return createSpillFile(s.options.FS, s.options.Dir, s.transfer)
}
