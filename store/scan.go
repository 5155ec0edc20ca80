package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/neardup/neardup/internal/fault"
)

// CheckFiles reads every block of every table file of the store from the disk and compares the
// checksums. It stops at the first damaged file and returns ErrCorrupt with its path. If read is
// not nil, CheckFiles calls it with the size of each file. It skips a file that Pebble has replaced
// and removed since the call began.
func (s *Store) CheckFiles(ctx context.Context, read func(bytes uint64)) error {
	files, err := s.tableFiles()
	if err != nil {
		return err
	}
	o := *s.options
	o.FS = s.fs
	for _, file := range files {
		if err := ctx.Err(); err != nil {
			return err
		}
		name := fmt.Sprintf("%s.sst", file.BackingSSTNum)
		path := s.fs.PathJoin(s.dir, name)
		err := checkFile(ctx, path, &o)
		if errors.Is(err, fs.ErrNotExist) {
			now, listErr := s.tableFiles()
			if !slices.ContainsFunc(now, func(f pebble.SSTableInfo) bool {
				return f.BackingSSTNum == file.BackingSSTNum
			}) {
				err = listErr
			}
		}
		if err != nil && !fault.Denied(err) {
			err = fmt.Errorf("%w: %s: %w", fault.ErrCorrupt, path, firstLine{err})
		}
		if err != nil {
			return err
		}
		if read != nil {
			read(file.Size)
		}
	}
	return nil
}

// tableFiles returns the tables of the database. If several tables share a file, it returns one.
func (s *Store) tableFiles() ([]pebble.SSTableInfo, error) {
	levels, err := s.db.SSTables()
	files := slices.Concat(levels...)
	slices.SortFunc(files, func(a, b pebble.SSTableInfo) int {
		return cmp.Compare(a.BackingSSTNum, b.BackingSSTNum)
	})
	return slices.CompactFunc(files, func(a, b pebble.SSTableInfo) bool {
		return a.BackingSSTNum == b.BackingSSTNum
	}), translateError(err)
}

func checkFile(ctx context.Context, path string, o *pebble.Options) error {
	f, err := o.FS.Open(path)
	if err != nil {
		return err
	}
	readable, err := sstable.NewSimpleReadable(f)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	r, err := sstable.NewReader(ctx, readable, o.MakeReaderOptions())
	if err != nil {
		return errors.Join(err, readable.Close())
	}
	return errors.Join(r.ValidateBlockChecksums(), r.Close())
}

// scan yields the results of decode for the entries from first (inclusive) to end (exclusive), in
// ascending order. The arguments of decode are valid until its next call.
func scan[T any](
	v *View, first, end []byte, decode func(key, value []byte) (T, error),
) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var failed error
		err := v.entries(first, end, func(key, value []byte) bool {
			entry, err := decode(key, value)
			if err == nil {
				return yield(entry, nil)
			}
			failed = fmt.Errorf("%s entry %x: %w", keyspaceNames[key[0]], key, err)
			return false
		})
		if err = cmp.Or(failed, err); err != nil {
			var none T
			yield(none, err)
		}
	}
}

// mapped yields value(x) for each element x of a sequence, up to the first error.
func mapped[T, U any](all iter.Seq2[T, error], value func(T) U) iter.Seq2[U, error] {
	return func(yield func(U, error) bool) {
		for x, err := range all {
			if !yield(value(x), err) || err != nil {
				return
			}
		}
	}
}

// checkEmpty returns an error if the value of an entry is not empty.
func checkEmpty(value []byte) error {
	if len(value) > 0 {
		return fmt.Errorf("%w: a value of %d bytes, not 0", fault.ErrCorrupt, len(value))
	}
	return nil
}

// entries yields the entries from first (inclusive) to end (exclusive) until yield returns false. A
// nil bound does not limit the range.
func (v *View) entries(first, end []byte, yield func(key, value []byte) bool) error {
	it, err := v.it.Clone(
		pebble.CloneOptions{IterOptions: &pebble.IterOptions{LowerBound: first, UpperBound: end}})
	if err != nil {
		return translateError(err)
	}
	defer it.Close() // its error was returned by Error or ValueAndErr
	for ok := it.First(); ok; ok = it.Next() {
		value, err := it.ValueAndErr()
		if err != nil {
			return translateError(err)
		}
		if !yield(it.Key(), value) {
			return nil
		}
	}
	return translateError(it.Error())
}
