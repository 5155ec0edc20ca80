package selfjoin

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"sync"

	"github.com/neardup/neardup/internal/radix"
)

// scratch is a folder of temporary files. Several goroutines may use it.
type scratch struct {
	dir string

	mu   sync.Mutex
	open map[*os.File]bool
}

func newScratch(parent string) (*scratch, error) {
	dir, err := os.MkdirTemp(parent, "neardup-selfjoin-")
	if err != nil {
		return nil, fmt.Errorf("selfjoin: folder for temporary files: %w", err)
	}
	return &scratch{dir: dir, open: make(map[*os.File]bool)}, nil
}

func (s *scratch) create() (*os.File, error) {
	file, err := os.CreateTemp(s.dir, "records-")
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.open[file] = true
	}
	return file, err
}

func (s *scratch) remove(file *os.File) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, file)
	return errors.Join(file.Close(), os.Remove(file.Name()))
}

// close removes the folder with all that is left in it.
func (s *scratch) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for file := range s.open {
		errs = append(errs, file.Close())
	}
	return errors.Join(errors.Join(errs...), os.RemoveAll(s.dir))
}

// recordFile is a list of records. What does not fit in its buffer is in a temporary
// file. It is for one goroutine at a time.
type recordFile[R radix.Record] struct {
	home    *scratch
	file    *os.File // nil before the first write
	written int64    // records in file
	spread  radix.Spread
	buffer  []R // the records behind those
	room    int // of the buffer
}

// bufferBytes is the memory of a recordFile, unless there are many of them.
const bufferBytes = 64 << 10

func newRecordFile[R radix.Record](home *scratch, memory int64) *recordFile[R] {
	return &recordFile[R]{home: home, spread: radix.NoSpread, room: int(max(min(memory, bufferBytes)/radix.Bytes[R](), 1))}
}

func (f *recordFile[R]) len() int64 { return f.written + int64(len(f.buffer)) }

// differing returns the bits in which the first words of the records differ.
func (f *recordFile[R]) differing() uint64 {
	return f.spread.Join(radix.SpreadOf(f.buffer)).Differing()
}

func (f *recordFile[R]) add(r R) error {
	if len(f.buffer) == cap(f.buffer) {
		if err := f.makeRoom(); err != nil {
			return err
		}
	}
	f.buffer = append(f.buffer, r)
	return nil
}

// makeRoom makes a larger buffer, or writes what is in it.
func (f *recordFile[R]) makeRoom() (err error) {
	if n := len(f.buffer); n < f.room {
		f.buffer = append(make([]R, 0, min(max(16, 8*n), f.room)), f.buffer...)
		return nil
	}
	if f.file == nil {
		if f.file, err = f.home.create(); err != nil {
			return err
		}
	}
	if _, err := f.file.WriteAt(radix.Memory(f.buffer), f.written*radix.Bytes[R]()); err != nil {
		return err
	}
	f.spread = f.spread.Join(radix.SpreadOf(f.buffer))
	f.written += int64(len(f.buffer))
	f.buffer = f.buffer[:0]
	return nil
}

// all yields the records in their order, many at a time, which are good until the next.
func (f *recordFile[R]) all() iter.Seq2[[]R, error] {
	return func(yield func([]R, error) bool) {
		size := radix.Bytes[R]()
		records := make([]R, min(f.written, bufferBytes/size))
		for at := int64(0); at < f.written; at += int64(len(records)) {
			records = records[:min(int64(len(records)), f.written-at)]
			part := radix.Memory(records)
			if n, err := f.file.ReadAt(part, at*size); n < len(part) {
				if err == io.EOF {
					err = io.ErrUnexpectedEOF // the file was cut short
				}
				yield(nil, fmt.Errorf("%s at byte %d: %w", f.file.Name(), at*size+int64(n), err))
				return
			}
			if !yield(records, nil) {
				return
			}
		}
		if len(f.buffer) > 0 {
			yield(f.buffer, nil)
		}
	}
}

// empty leaves no records, but the file for others.
func (f *recordFile[R]) empty() { f.written, f.buffer = 0, f.buffer[:0] }

func (f *recordFile[R]) remove() error {
	f.empty()
	f.buffer = nil
	if f.file == nil {
		return nil
	}
	file := f.file
	f.file = nil
	return f.home.remove(file)
}
