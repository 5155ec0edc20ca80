package compaction

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/store"
)

// recordFile holds the added records in the order of their IDs until it is known which of
// them later ones replace. The file is created with the first record.
type recordFile struct {
	path   string
	fs     vfs.FS
	file   vfs.File
	writer *bufio.Writer
	buffer []byte
	count  int // records
}

const (
	recordFileBuffer = 1 << 20
	recordHeader     = 12 // bytes: ID and length of a record
)

func (f *recordFile) add(id uint64, r store.Record) (err error) {
	if f.file == nil {
		if f.file, err = f.fs.Create(f.path, vfs.WriteCategoryUnspecified); err != nil {
			return err
		}
		f.writer = bufio.NewWriterSize(f.file, recordFileBuffer)
	}
	f.buffer = r.Append(append(f.buffer[:0], make([]byte, recordHeader)...))
	binary.BigEndian.PutUint64(f.buffer, id)
	binary.BigEndian.PutUint32(f.buffer[8:], uint32(len(f.buffer)-recordHeader))
	f.count++
	_, err = f.writer.Write(f.buffer)
	return err
}

// each calls do for each record.
func (f *recordFile) each(ctx context.Context, do func(id uint64, r store.Record) error) (err error) {
	if f.file == nil {
		return nil
	}
	if err := f.writer.Flush(); err != nil {
		return err
	}
	in, err := f.fs.Open(f.path, vfs.SequentialReadsOption)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	r := bufio.NewReaderSize(in, recordFileBuffer)
	for n := 0; ; n++ {
		if n%tellEvery == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		id, record, err := f.read(r)
		if err == io.EOF && n == f.count {
			return nil
		}
		if err != nil {
			return fmt.Errorf("temporary file %s: record %d of %d: %w", f.path, n, f.count, err)
		}
		if err := do(id, record); err != nil {
			return err
		}
	}
}

// read returns the next record, or io.EOF at the end.
func (f *recordFile) read(r *bufio.Reader) (id uint64, record store.Record, err error) {
	var header [recordHeader]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return 0, record, err
	}
	size := int(binary.BigEndian.Uint32(header[8:]))
	f.buffer = slices.Grow(f.buffer[:0], size)[:size]
	if _, err := io.ReadFull(r, f.buffer); err != nil {
		return 0, record, errors.Join(io.ErrUnexpectedEOF, err)
	}
	record, err = store.DecodeRecord(f.buffer)
	return binary.BigEndian.Uint64(header[:]), record, err
}

func (f *recordFile) close() error {
	if f.file == nil {
		return nil
	}
	err := f.file.Close()
	f.file = nil
	return err
}
