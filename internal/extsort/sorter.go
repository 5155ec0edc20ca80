// Package extsort sorts fixed-size records that may not fit in memory.
//
// A Sorter returns the records that were added in ascending order of their first word. Records with equal
// first words keep the order in which they were added. A Sorter sorts as many records as fit in half of its
// memory, writes them to a temporary file as one run, and merges all runs at the end.
//
// The temporary file is private to the process: it has native byte order and no checksums, is never synced, and
// only its owner can read it. A process that is killed leaves it in Options.Dir as extsort-*.spill.
package extsort

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/internal/radix"
)

var (
	errClosed = errors.New("extsort: closed")
	errSorted = errors.New("extsort: the records were read already")
)

const (
	defaultMemory = 1 << 30
	minMemory     = 1 << 20
	chunkLen      = 4096 // records that Sorted yields together
)

// Options configures a Sorter. The zero value is usable.
type Options struct {
	// MemoryBytes bounds the memory of all buffers together. Default: 1 GiB. Minimum: 1 MiB.
	MemoryBytes int64

	// Dir is the directory of the temporary file. It is created when needed. Default: os.TempDir().
	Dir string

	// FS is the file system of Dir. Default: vfs.Default.
	FS vfs.FS
}

// Sorter sorts records: any number of calls of Add, one of Sorted, then Close. It is for one goroutine at
// a time.
type Sorter[R radix.Record] struct {
	options Options
	most    int // records of a run
	records []R // not spilled yet
	room    []R // for sorting

	file file
	path string
	runs []*run[R] // in the file
	size int64     // of the file

	len    int64
	failed error // why no more records can be added or read
}

type file interface {
	io.Writer
	io.ReaderAt
	io.Closer
}

// New returns an empty Sorter. Memory is allocated as records are added.
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
	return &Sorter[R]{options: opts, most: int(opts.MemoryBytes / 2 / radix.Bytes[R]())}
}

// Add copies records. It returns the errors of ctx and of the temporary file. After an error of the file, Add
// and Sorted return the same error.
func (s *Sorter[R]) Add(ctx context.Context, records []R) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	s.len += int64(len(records))
	for len(records) > 0 {
		if len(s.records) == s.most {
			if s.failed = s.spill(); s.failed != nil {
				return s.failed
			}
		}
		if len(s.records) == cap(s.records) { // append would not double large slices
			grown := make([]R, len(s.records), min(max(2*cap(s.records), chunkLen), s.most))
			copy(grown, s.records)
			s.records = grown
		}
		n := min(len(records), cap(s.records)-len(s.records))
		s.records = append(s.records, records[:n]...)
		records = records[n:]
	}
	return nil
}

func (s *Sorter[R]) usable(ctx context.Context) error {
	if s.failed != nil {
		return s.failed
	}
	return ctx.Err()
}

// Len returns the number of records added.
func (s *Sorter[R]) Len() int64 { return s.len }

// sort sorts the records that are not spilled.
func (s *Sorter[R]) sort() {
	if len(s.room) < len(s.records) {
		s.room = make([]R, len(s.records))
	}
	if sorted := radix.Sort(s.records, s.room[:len(s.records)]); len(sorted) > 0 && &sorted[0] == &s.room[0] {
		s.records, s.room = sorted, s.records[:cap(s.records)]
	}
}

// spill writes the records to the file as one run.
func (s *Sorter[R]) spill() error {
	if s.file == nil {
		if err := s.create(); err != nil {
			return err
		}
	}
	s.sort()
	if _, err := s.file.Write(radix.Memory(s.records)); err != nil {
		return fmt.Errorf("extsort: write %s: %w", s.path, err)
	}
	end := s.size + int64(len(s.records))*radix.Bytes[R]()
	s.runs = append(s.runs, &run[R]{order: len(s.runs), at: s.size, end: end})
	s.size, s.records = end, s.records[:0]
	return nil
}

func (s *Sorter[R]) create() (err error) {
	fs := s.options.FS
	if err := fs.MkdirAll(s.options.Dir, 0o700); err != nil {
		return fmt.Errorf("extsort: create directory %s: %w", s.options.Dir, err)
	}
	s.path = fs.PathJoin(s.options.Dir, fmt.Sprintf("extsort-%016x.spill", rand.Uint64()))
	if fs == vfs.Default { // it would create a file that everybody can read
		s.file, err = os.OpenFile(s.path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	} else {
		s.file, err = fs.Create(s.path, vfs.WriteCategoryUnspecified)
	}
	if err != nil {
		s.file = nil
		return fmt.Errorf("extsort: create %s: %w", s.path, err)
	}
	return nil
}

// Sorted yields all records in order, in slices that are not empty. A slice is valid until the next step, and
// the caller may write to it. Sorted can be called once, after the last Add. An error comes with a nil slice and
// is the last. The memory is freed and the file is removed when the loop ends.
func (s *Sorter[R]) Sorted(ctx context.Context) iter.Seq2[[]R, error] {
	return func(yield func([]R, error) bool) {
		defer s.release() // also if the loop panics or ends early
		var next func() ([]R, error)
		err := s.usable(ctx)
		if s.failed == nil {
			s.failed = errSorted
		}
		if err == nil {
			next, err = s.chunks()
		}
		for err == nil {
			var records []R
			if records, err = next(); err != nil || len(records) == 0 {
				break
			}
			if !yield(records, nil) {
				return
			}
			if err = context.Cause(ctx); err == nil && s.failed == errClosed {
				err = errClosed
			}
		}
		if err = errors.Join(err, s.release()); err != nil {
			yield(nil, err)
		}
	}
}

// chunks sorts the records and returns a function that returns the next of them, none at the end.
func (s *Sorter[R]) chunks() (func() ([]R, error), error) {
	s.sort()
	s.room = nil
	if s.file == nil {
		return func() (chunk []R, err error) {
			n := min(len(s.records), chunkLen)
			chunk, s.records = s.records[:n], s.records[n:]
			return chunk, nil
		}, nil
	}
	m, err := s.merge()
	out := make([]R, 0, chunkLen)
	return func() (chunk []R, err error) {
		for out = out[:0]; len(m) > 0 && len(out) < chunkLen && err == nil; {
			out = append(out, m[0].records[0])
			m, err = m.advance(s)
		}
		return out, err
	}, err
}

// Close frees the memory and removes the file. A second Close does nothing.
func (s *Sorter[R]) Close() error {
	s.failed = errClosed
	return s.release()
}

func (s *Sorter[R]) release() error {
	s.records, s.room, s.runs = nil, nil, nil
	if s.file == nil {
		return nil
	}
	err := s.file.Close() // before Remove: Windows removes no open file
	s.file = nil
	if err = errors.Join(err, s.options.FS.Remove(s.path)); err != nil {
		return fmt.Errorf("extsort: remove %s: %w", s.path, err)
	}
	return nil
}

// run is a sequence of sorted records, in the file or, the last one, in memory.
type run[R radix.Record] struct {
	order   int
	at, end int64 // the rest in the file
	buffer  []R
	records []R // the next ones, in memory
}

// fill reads the next records of a run, if any.
func (r *run[R]) fill(s *Sorter[R]) error {
	n := min(int64(len(r.buffer)), (r.end-r.at)/radix.Bytes[R]())
	r.records = r.buffer[:n]
	if n == 0 {
		return nil
	}
	if s.file == nil {
		return errClosed
	}
	data := radix.Memory(r.records)
	if got, err := s.file.ReadAt(data, r.at); got < len(data) {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return fmt.Errorf("extsort: read %s at byte %d: %w", s.path, r.at+int64(got), err)
	}
	r.at += int64(len(data))
	return nil
}

// merging is a heap of the runs with records left. Its first run has the next record.
type merging[R radix.Record] []*run[R]

func (s *Sorter[R]) merge() (merging[R], error) {
	var m merging[R]
	buffer := max(s.options.MemoryBytes/2/radix.Bytes[R]()/int64(len(s.runs)), 1)
	for _, r := range s.runs {
		r.buffer = make([]R, min(buffer, (r.end-r.at)/radix.Bytes[R]()))
		if err := r.fill(s); err != nil {
			return nil, err
		}
		m = append(m, r)
	}
	if len(s.records) > 0 {
		m = append(m, &run[R]{order: len(m), records: s.records})
	}
	for i := len(m)/2 - 1; i >= 0; i-- {
		m.down(i)
	}
	return m, nil
}

// advance removes the next record.
func (m merging[R]) advance(s *Sorter[R]) (merging[R], error) {
	r := m[0]
	if r.records = r.records[1:]; len(r.records) == 0 {
		if err := r.fill(s); err != nil {
			return nil, err
		}
		if len(r.records) == 0 {
			m[0] = m[len(m)-1]
			m = m[:len(m)-1]
		}
	}
	m.down(0)
	return m, nil
}

// before reports whether the next record of run i comes before that of run j. Of equal records the one that
// was added first, to the earlier run, comes first.
func (m merging[R]) before(i, j int) bool {
	a, b := m[i].records[0][0], m[j].records[0][0]
	return a < b || a == b && m[i].order < m[j].order
}

func (m merging[R]) down(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(m); child++ {
			if m.before(child, least) {
				least = child
			}
		}
		if least == i {
			return
		}
		m[i], m[least] = m[least], m[i]
		i = least
	}
}
