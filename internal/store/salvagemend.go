package store

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable/block"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// mend puts right each block of a file of sorted entries in which one byte is wrong. The
// checksum behind a block tells which one that is, as it does in a log. It reports
// whether anything was done; what else is wrong stays.
func (s *Salvage) mend(ctx context.Context, path, name string, o *pebble.Options) (bool, error) {
	blocks, err := s.blocksOf(ctx, path, o)
	if err != nil {
		return false, nil // without the list of its blocks, nothing can be done
	}
	f, err := s.fs.Open(path)
	if err != nil {
		return false, err
	}
	data, err := io.ReadAll(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return false, err
	}
	mended := 0
	for _, b := range blocks {
		if mendBlock(data, b) {
			mended++
		}
	}
	if mended == 0 {
		return false, nil
	}
	s.report(Corruption{false, "file", []byte(name), fmt.Errorf("%w: one wrong byte in each of %d blocks: put right", ErrCorrupt, mended)})
	if err := s.fs.Remove(path); err != nil { // it is a link
		return false, err
	}
	out, err := s.fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return false, err
	}
	_, err = out.Write(data)
	return true, errors.Join(err, out.Close())
}

func (s *Salvage) blocksOf(ctx context.Context, path string, o *pebble.Options) (blocks []block.Handle, err error) {
	r, err := openSorted(ctx, s.fs, path, o.MakeReaderOptions())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	l, err := r.Layout()
	if err != nil {
		return nil, err
	}
	for _, d := range l.Data {
		blocks = append(blocks, d.Handle)
	}
	for _, f := range l.Filter {
		blocks = append(blocks, f.Handle)
	}
	return append(blocks, l.RangeDel), nil
}
