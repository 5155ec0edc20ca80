package compaction

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/internal/store"
)

// recordFile holds the records of a load, in the order of their IDs, until it is known
// which of them are replaced by later ones. There is no file before there is a record.
type recordFile struct {
	path   string
	fs     vfs.FS
	file   vfs.File
	writer *bufio.Writer
	buffer []byte
	record []byte
}

const recordFileBuffer = 1 << 20

func (f *recordFile) add(id uint64, r store.Record) (err error) {
	if f.file == nil {
		if f.file, err = f.fs.Create(f.path, vfs.WriteCategoryUnspecified); err != nil {
			return err
		}
		f.writer = bufio.NewWriterSize(f.file, recordFileBuffer)
	}
	f.record = r.Append(f.record[:0])
	f.buffer = binary.AppendUvarint(f.buffer[:0], id)
	f.buffer = binary.AppendUvarint(f.buffer, uint64(len(f.record)))
	_, err = f.writer.Write(append(f.buffer, f.record...))
	return err
}

func (f *recordFile) flush() error {
	if f.writer == nil {
		return nil
	}
	return f.writer.Flush()
}

// each reads the records back.
func (f *recordFile) each(ctx context.Context, do func(id uint64, r store.Record) error) (err error) {
	if f.file == nil {
		return nil
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
		id, err := binary.ReadUvarint(r)
		if err == io.EOF {
			return nil
		}
		record, err := f.read(r, err)
		if err != nil {
			return fmt.Errorf("%s: record %d: %w", f.path, n, err)
		}
		if err := do(id, record); err != nil {
			return err
		}
	}
}

func (f *recordFile) read(r *bufio.Reader, err error) (store.Record, error) {
	if err != nil {
		return store.Record{}, err
	}
	size, err := binary.ReadUvarint(r)
	if err != nil {
		return store.Record{}, err
	}
	if uint64(cap(f.buffer)) < size {
		f.buffer = make([]byte, size)
	}
	f.buffer = f.buffer[:size]
	if _, err := io.ReadFull(r, f.buffer); err != nil {
		return store.Record{}, err
	}
	return store.DecodeRecord(f.buffer)
}

func (f *recordFile) close() error {
	if f.file == nil {
		return nil
	}
	return f.file.Close()
}
