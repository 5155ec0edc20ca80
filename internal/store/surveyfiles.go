package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// CheckFiles reads the sorted tables that hold the store, every block of them from the
// disk, and compares their checksums. report gets each file that is damaged, tell, if it
// is not nil, the bytes of each one read. A file that Pebble has replaced and removed
// meanwhile is passed over.
func (s *Store) CheckFiles(ctx context.Context, report func(Fault), tell func(bytes uint64)) error {
	levels, err := s.db.SSTables()
	if err != nil {
		return classify(err)
	}
	seen := map[string]bool{}
	for _, level := range levels {
		for _, table := range level {
			name := fmt.Sprintf("%s.sst", table.BackingSSTNum)
			if seen[name] {
				continue // several of Pebble's tables may be parts of one file
			}
			seen[name] = true
			if err := ctx.Err(); err != nil {
				return err
			}
			err := checkFile(ctx, s.fs, s.fs.PathJoin(s.dir, name), s.options.MakeReaderOptions())
			if errors.Is(err, fs.ErrNotExist) {
				if used, listErr := s.uses(table.BackingSSTNum.String()); listErr != nil || !used {
					err = classify(listErr)
				}
			}
			if err != nil {
				report(Fault{true, "file", []byte(name), corrupt(err)})
			}
			if tell != nil {
				tell(table.Size)
			}
		}
	}
	return nil
}

// uses reports whether a file holds a table of the store now.
func (s *Store) uses(number string) (bool, error) {
	levels, err := s.db.SSTables()
	for _, table := range slices.Concat(levels...) {
		if table.BackingSSTNum.String() == number {
			return true, err
		}
	}
	return false, err
}

func checkFile(ctx context.Context, fsys vfs.FS, path string, opts sstable.ReaderOptions) error {
	r, err := openSorted(ctx, fsys, path, opts)
	if err != nil {
		return err
	}
	return errors.Join(r.ValidateBlockChecksums(), r.Close())
}

// openSorted opens a sorted table of Pebble's by itself.
func openSorted(ctx context.Context, fsys vfs.FS, path string, opts sstable.ReaderOptions) (*sstable.Reader, error) {
	f, err := fsys.Open(path)
	if err != nil {
		return nil, err
	}
	readable, err := sstable.NewSimpleReadable(f)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	r, err := sstable.NewReader(ctx, readable, opts)
	if err != nil {
		return nil, errors.Join(err, readable.Close())
	}
	return r, nil
}
