package selfjoin

import (
	"encoding/binary"
	"fmt"
	"io"
	"iter"
	"os"

	"github.com/neardup/neardup/internal/extsort"
)

// recordFile is records in a temporary file, in the order in which they were added. It
// is for one goroutine at a time.
type recordFile[R extsort.Record] struct {
	home   *scratch
	file   *os.File
	buffer []byte // to be written
	len    int64  // records
}

// recordBuffer is the number of bytes that are written or read at once.
const recordBuffer = 64 << 10

func newRecordFile[R extsort.Record](home *scratch) (*recordFile[R], error) {
	file, err := home.create()
	if err != nil {
		return nil, err
	}
	return &recordFile[R]{home: home, file: file}, nil
}

func (f *recordFile[R]) recordBytes() int {
	var r R
	return 8 * len(r)
}

func (f *recordFile[R]) add(r R) error {
	if f.buffer == nil {
		f.buffer = make([]byte, 0, recordBuffer)
	}
	for i := range len(r) {
		f.buffer = binary.LittleEndian.AppendUint64(f.buffer, r[i])
	}
	f.len++
	if len(f.buffer)+8*len(r) <= cap(f.buffer) {
		return nil
	}
	return f.write()
}

func (f *recordFile[R]) write() error {
	_, err := f.file.Write(f.buffer)
	f.buffer = f.buffer[:0]
	return err
}

// finish makes what was added ready to be read.
func (f *recordFile[R]) finish() error {
	err := f.write()
	f.buffer = nil
	return err
}

// all yields all records, some thousands at a time, good until the next.
func (f *recordFile[R]) all() iter.Seq2[[]R, error] { return f.between(0, f.len) }

// between yields the records from one place to another.
func (f *recordFile[R]) between(begin, end int64) iter.Seq2[[]R, error] {
	return func(yield func([]R, error) bool) {
		size := int64(f.recordBytes())
		atOnce := min(recordBuffer/size, end-begin)
		buffer, records := make([]byte, atOnce*size), make([]R, atOnce)
		for ; begin < end; begin += int64(len(records)) {
			records = records[:min(atOnce, end-begin)]
			part := buffer[:int64(len(records))*size]
			if n, err := f.file.ReadAt(part, begin*size); n < len(part) {
				if err == io.EOF {
					err = io.ErrUnexpectedEOF // the file was cut short
				}
				yield(nil, fmt.Errorf("%s at byte %d: %w", f.file.Name(), begin*size+int64(n), err))
				return
			}
			for i := range records {
				for w := range len(records[i]) {
					records[i][w] = binary.LittleEndian.Uint64(part)
					part = part[8:]
				}
			}
			if !yield(records, nil) {
				return
			}
		}
	}
}

// each yields all records one by one.
func (f *recordFile[R]) each() iter.Seq2[R, error] {
	return func(yield func(R, error) bool) {
		for records, err := range f.all() {
			if err != nil {
				var none R
				yield(none, err)
				return
			}
			for _, r := range records {
				if !yield(r, nil) {
					return
				}
			}
		}
	}
}

func (f *recordFile[R]) remove() error { return f.home.remove(f.file) }
