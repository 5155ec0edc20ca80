package store

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/sstable/block"
	"github.com/cockroachdb/pebble/v2/vfs"
)

const (
	// sortedFileBytes is about the size at which the next file begins.
	sortedFileBytes = 128 << 20
	// packedBlockBytes is what Pebble reads at once: some of our blocks.
	packedBlockBytes = 8 << 10
)

// entries writes ascending keys of one keyspace into sorted tables of Pebble's, one
// after the other. It makes no file before there is an entry.
type entries struct {
	r       *Rewrite
	options sstable.WriterOptions
	file    *sstable.Writer
	value   []byte // for encoding
}

func (r *Rewrite) newEntries() entries {
	o := r.store.options
	e := entries{r: r, options: o.MakeWriterOptions(len(o.Levels)-1, r.store.db.TableFormat())}
	// Pebble puts these tables above what they overlap. In one that claims to be on the
	// lowest level nothing heeds the deletes.
	e.options.WritingToLowestLevel = false
	return e
}

// newPackedEntries is for what is packed already, and asked for by keys that are there.
func (r *Rewrite) newPackedEntries() entries {
	e := r.newEntries()
	e.options.Compression = block.NoCompression
	e.options.FilterPolicy = pebble.NoFilterPolicy
	e.options.BlockSize = packedBlockBytes
	return e
}

func (e *entries) set(key, value []byte) error {
	if err := e.open(); err != nil {
		return err
	}
	return e.file.Set(key, value)
}

func (e *entries) delete(key []byte) error {
	if err := e.open(); err != nil {
		return err
	}
	return e.file.Delete(key)
}

// open sees to it that there is a file with room.
func (e *entries) open() error {
	if e.file != nil && e.file.Raw().EstimatedSize() >= sortedFileBytes {
		if err := e.close(); err != nil {
			return err
		}
	}
	if e.file != nil {
		return nil
	}
	s := e.r.store
	e.r.mu.Lock()
	path := s.fs.PathJoin(e.r.dir, fmt.Sprintf("%06d.sst", len(e.r.paths)))
	e.r.paths = append(e.r.paths, path)
	e.r.mu.Unlock()
	f, err := s.fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	e.file = sstable.NewWriter(objstorageprovider.NewFileWritable(f), e.options)
	return nil
}

// close ends the file that is open, if any, and makes it durable.
func (e *entries) close() error {
	if e.file == nil {
		return nil
	}
	err := e.file.Close()
	e.file = nil
	return err
}
