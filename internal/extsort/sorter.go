// Package extsort sorts fixed-size records that may not fit in memory.
//
// A Sorter sorts records by their first word. Records with equal first words keep the order in
// which they were added. A Sorter collects as many records as fit in half of its memory, writes
// them to a temporary file as one run, and merges all runs at the end. Add distributes the records
// to buckets by the first byte, so a bucket usually fits in a core's own cache when it is sorted.
//
// The temporary file is private to the process: it has native byte order and no checksums, is never
// synced, and only its owner can read it. A process that is killed leaves it in Options.Dir as
// extsort-*.spill.
package extsort

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"os"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/internal/radix"
)

var (
	errClosed = errors.New("extsort: closed")
	errSorted = errors.New("extsort: Sorted was called already")
)

const (
	defaultMemory = 1 << 30
	minMemory     = 1 << 20
	chunkLen      = 4096    // records that a merge yields together, and maximum of partLen
	firstPartLen  = 16      // records in the first part of a bucket
	bucketBytes   = 1 << 20 // largest bucket that fits in a core's own cache
)

// Options configures a Sorter. The zero value is ready to use.
type Options struct {
	// MemoryBytes bounds the memory of all buffers together. 0: 1 GiB. Minimum: 1 MiB.
	MemoryBytes int64

	// Dir is the directory of the temporary file. It is created when needed. "": os.TempDir().
	Dir string

	// FS is the file system of Dir. nil: vfs.Default.
	FS vfs.FS
}

// Sorter sorts records. Callers call Add any number of times, Sorted once, and then Close. A Sorter
// is not safe for concurrent use.
type Sorter[R radix.Record] struct {
	options Options
	most    int // records of a run
	partLen int // largest length of a part

	buckets [256][][]R // records that are not spilled yet, by their first byte, in parts
	held    int        // number of records in buckets
	free    [][]R      // parts without records
	sorted  []R        // a sorted bucket
	room    []R        // for sorting a bucket

	collected []R // added records that are in no bucket yet

	file file
	path string
	runs []*run[R] // in the file
	size int64     // of the file

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
	most := int(opts.MemoryBytes / 2 / radix.Bytes[R]())
	return &Sorter[R]{options: opts, most: most, partLen: min(most/(8*256), chunkLen)}
}

// Add copies records. It returns the errors of the temporary file. After such an error, Add and
// Sorted return the same error.
func (s *Sorter[R]) Add(records ...R) error {
	if s.failed == nil && len(s.collected)+len(records) < distributedTogether {
		s.collected = append(s.collected, records...)
		return nil
	}
	return cmp.Or(s.distributeCollected(), s.distribute(records))
}

// distributedTogether is the number of records that Add collects before it distributes them, since
// distributing single records is slower.
const distributedTogether = 4096

func (s *Sorter[R]) distributeCollected() error {
	records := s.collected
	s.collected = s.collected[:0]
	return s.distribute(records)
}

// distribute adds records to their buckets.
func (s *Sorter[R]) distribute(records []R) error {
	if s.failed != nil {
		return s.failed
	}
	for i := range records {
		if s.held == s.most {
			if s.failed = s.spill(); s.failed != nil {
				return s.failed
			}
		}
		bucket := &s.buckets[records[i][0]>>56]
		last := len(*bucket) - 1
		if last < 0 || len((*bucket)[last]) == cap((*bucket)[last]) {
			last++
			*bucket = append(*bucket, s.newPart(last))
		}
		part := &(*bucket)[last]
		*part = append(*part, records[i])
		s.held++
	}
	return nil
}

// newPart returns an empty part for a bucket with n parts. The first parts of a bucket are small.
func (s *Sorter[R]) newPart(n int) []R {
	size := min(s.partLen, firstPartLen<<min(n, 16))
	if last := len(s.free) - 1; last >= 0 && size == s.partLen {
		part := s.free[last]
		s.free = s.free[:last]
		return part
	}
	return make([]R, 0, size)
}

// Len returns the number of records added.
func (s *Sorter[R]) Len() int64 { return s.size/radix.Bytes[R]() + int64(s.held+len(s.collected)) }

// sort empties a bucket and returns its sorted records, which are valid until the next call.
func (s *Sorter[R]) sort(bucket *[][]R) []R {
	n := 0
	for _, part := range *bucket {
		n += len(part)
	}
	if cap(s.sorted) < n {
		s.sorted = make([]R, n+n/8)
	}
	s.sorted = s.sorted[:n]
	if int64(n)*radix.Bytes[R]() <= bucketBytes {
		s.room = slices.Grow(s.room[:0], n)[:n]
		at := 0
		for _, part := range *bucket {
			at += copy(s.sorted[at:], part)
		}
		if sorted := radix.Sort(s.sorted, s.room); n > 0 && &sorted[0] != &s.sorted[0] {
			s.sorted, s.room = s.room, s.sorted
		}
	} else {
		radix.SortParts(*bucket, s.sorted)
	}
	for _, part := range *bucket {
		if cap(part) == s.partLen {
			s.free = append(s.free, part[:0])
		}
	}
	*bucket = nil
	return s.sorted
}

// spill writes the records to the file as one run.
func (s *Sorter[R]) spill() error {
	if s.file == nil {
		if err := s.create(); err != nil {
			return err
		}
	}
	begin := s.size
	for b := range s.buckets {
		sorted := s.sort(&s.buckets[b])
		if _, err := s.file.Write(radix.Memory(sorted)); err != nil {
			return fmt.Errorf("extsort: write %s: %w", s.path, err)
		}
		s.size += int64(len(sorted)) * radix.Bytes[R]()
	}
	s.runs = append(s.runs, &run[R]{order: len(s.runs), at: begin, end: s.size})
	s.held = 0
	return nil
}

func (s *Sorter[R]) create() (err error) {
	fs := s.options.FS
	if err := fs.MkdirAll(s.options.Dir, 0o700); err != nil {
		return fmt.Errorf("extsort: create directory %s: %w", s.options.Dir, err)
	}
	s.path = fs.PathJoin(s.options.Dir, fmt.Sprintf("extsort-%016x.spill", rand.Uint64()))
	if fs == vfs.Default { // vfs.Default would create a file that all users can read
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

// Sorted yields all records in order, in slices that are not empty. A slice is valid until the next
// iteration, and the caller may write to it. Sorted can be called once, after the last Add. It
// yields an error with a nil slice, and then ends. When the loop ends, the memory is freed and the
// file is removed.
func (s *Sorter[R]) Sorted(ctx context.Context) iter.Seq2[[]R, error] {
	return func(yield func([]R, error) bool) {
		defer s.release() // also if the loop panics or ends early
		var next func() ([]R, error)
		err := cmp.Or(s.failed, ctx.Err())
		if err == nil {
			err = s.distributeCollected()
		}
		s.failed = cmp.Or(s.failed, errSorted)
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

// chunks returns a function that returns the next records in order, or no records at the end.
func (s *Sorter[R]) chunks() (func() ([]R, error), error) {
	if s.file == nil {
		next := 0
		return func() (chunk []R, err error) {
			for ; len(chunk) == 0 && next < len(s.buckets); next++ {
				chunk = s.sort(&s.buckets[next])
			}
			return chunk, nil
		}, nil
	}
	if err := s.spill(); err != nil {
		return nil, err
	}
	s.free, s.sorted, s.room = nil, nil, nil
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
	s.buckets, s.free, s.sorted, s.room, s.runs = [256][][]R{}, nil, nil, nil, nil
	s.collected = nil
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

// run is a sequence of sorted records in the file.
type run[R radix.Record] struct {
	order   int
	at, end int64 // the records that are only in the file
	buffer  []R
	records []R // the next records, in buffer
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

// merging is a heap of the runs that have records left. Its first run has the next record.
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
	for i := len(m)/2 - 1; i >= 0; i-- {
		m.down(i)
	}
	return m, nil
}

// advance removes the next record, which is the first of m[0].
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

// before reports whether the next record of run i precedes the next record of run j. Of records
// with equal first words, the record of the earlier run precedes, so they keep their order.
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
