package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// CheckFiles reads the sorted tables that hold the store, every block of them from the
// disk, and compares their checksums. report gets each file that is damaged, tell, if it
// is not nil, the bytes of each one read. A file that Pebble has replaced and removed
// meanwhile is passed over.
func (s *Store) CheckFiles(ctx context.Context, report func(Corruption), tell func(bytes uint64)) error {
	return checkTables(ctx, s.db, s.options, s.dir, report, tell)
}

func checkTables(ctx context.Context, db *pebble.DB, o *pebble.Options, dir string, report func(Corruption), tell func(bytes uint64)) error {
	levels, err := db.SSTables()
	if err != nil {
		return classify(err)
	}
	seen := map[string]bool{}
	for _, table := range slices.Concat(levels...) {
		name := fmt.Sprintf("%s.sst", table.BackingSSTNum)
		if seen[name] {
			continue // several of Pebble's tables may be parts of one file
		}
		seen[name] = true
		if err := ctx.Err(); err != nil {
			return err
		}
		err := checkFile(ctx, o.FS, o.FS.PathJoin(dir, name), o.MakeReaderOptions())
		if errors.Is(err, fs.ErrNotExist) {
			if now, listErr := db.SSTables(); listErr != nil || !slices.ContainsFunc(slices.Concat(now...), func(t pebble.SSTableInfo) bool { return t.BackingSSTNum == table.BackingSSTNum }) {
				err = classify(listErr)
			}
		}
		if err != nil {
			report(Corruption{true, "file", []byte(name), corrupt(err)})
		}
		if tell != nil {
			tell(table.Size)
		}
	}
	return nil
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
