package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/v2/sstable"
	sstblock "github.com/cockroachdb/pebble/v2/sstable/block"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/store/internal/block"
)

// incomingDir is where a Rewrite gathers its files, within the index.
const incomingDir = "incoming"

// Rewrite is the next state of the tables in the making: packed blocks, their
// directories and filters in the place of all live and packed entries, and whatever
// comes with them. Nothing of it is seen, by anyone or after a crash, until Commit,
// which switches over in one step.
//
// Different tables may be written side by side, and so may tables and everything
// else. Apart from that a Rewrite is not safe for concurrent use.
type Rewrite struct {
	store *Store
	dir   string

	mu    sync.Mutex
	paths []string

	tables  []PackedTableInfo
	plan    string // of meta, and
	nextID  uint64
	records sstWriter
	keys    sstWriter
	filters sstWriter
}

// NewRewrite begins the replacement of the tables by a number of new ones; there may be one at a time. Until it
// is committed or closed, no one may write to the store, unless an epoch was frozen before and Take
// ends it.
func (s *Store) NewRewrite(tables int) (*Rewrite, error) {
	if err := s.writable(); err != nil {
		return nil, err
	}
	r := &Rewrite{store: s, dir: s.fs.PathJoin(s.dir, incomingDir), tables: make([]PackedTableInfo, tables)}
	r.records, r.keys, r.filters = r.newWriter(), r.newWriter(), r.newPackedWriter()
	if err := sweepIncoming(s.dir, s.fs); err != nil {
		return nil, err
	}
	return r, s.fs.MkdirAll(r.dir, 0o700)
}

// SetTables changes the number of tables, before the first is written.
func (r *Rewrite) SetTables(tables int) { r.tables = make([]PackedTableInfo, tables) }

// Packed says what the tables that were closed hold.
func (r *Rewrite) Packed() []PackedTableInfo { return r.tables }

// Dir is a folder for files that are needed until the Rewrite is done, in FS. It goes
// with it.
func (r *Rewrite) Dir() string { return r.dir }

// FS is the file system of the store, which writes nothing to a folder that has taken its place.
func (r *Rewrite) FS() vfs.FS { return r.store.fs }

// sweepIncoming removes what a Rewrite left that was cut short.
func sweepIncoming(dir string, fsys vfs.FS) error {
	incoming := fsys.PathJoin(dir, incomingDir)
	if _, err := fsys.Stat(incoming); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return fsys.RemoveAll(incoming)
}

// AddRecord writes the record of a document. Records, and keys, must come in ascending order.
func (r *Rewrite) AddRecord(id uint64, record Record) error {
	r.records.value = record.Append(r.records.value[:0])
	return r.records.set(documentKey(id), r.records.value)
}

// DeleteRecord deletes the record of a document. See AddRecord.
func (r *Rewrite) DeleteRecord(id uint64) error { return r.records.delete(documentKey(id)) }

// AddKey notes that a document has a key with this hash, and DeleteKey that it has it no longer. Both must
// come in the order of hash and ID.
func (r *Rewrite) AddKey(hash, id uint64) error { return r.keys.set(keyKey(hash, id), nil) }

// DeleteKey is described at AddKey.
func (r *Rewrite) DeleteKey(hash, id uint64) error { return r.keys.delete(keyKey(hash, id)) }

// AddFilterChunk writes a chunk of the prefix filter of a table, in the order of
// table and chunk.
func (r *Rewrite) AddFilterChunk(table, chunk int, data []byte) error {
	return r.filters.set(chunkKey(filterKeyspace, table, chunk), data)
}

// TableWriter packs the entries of one table.
type TableWriter struct {
	*block.Writer
	r         *Rewrite
	table     int
	blocks    sstWriter
	directory sstWriter
	lasts     []uint64
	info      PackedTableInfo
}

// Table returns a writer for a table: for table 0, which has the postings, by
// AddPosting, for the others by Add. Close must be called.
func (r *Rewrite) Table(table int) *TableWriter {
	w := &TableWriter{r: r, table: table, blocks: r.newPackedWriter(), directory: r.newPackedWriter()}
	w.Writer = block.NewWriter(block.Options{Postings: table == 0}, w.emit)
	return w
}

func (w *TableWriter) emit(last uint64, data []byte) error {
	w.info.Blocks++
	w.info.Bytes += uint64(len(data))
	w.lasts = append(w.lasts, last)
	if len(w.lasts) == directoryChunk {
		if err := w.flushDirectory(); err != nil {
			return err
		}
	}
	return w.blocks.set(tableKey(packedKeyspace, w.table, last), data)
}

func (w *TableWriter) flushDirectory() error {
	if len(w.lasts) == 0 {
		return nil
	}
	chunk, err := block.Append(nil, w.lasts)
	if err != nil {
		return err
	}
	w.lasts = w.lasts[:0]
	return w.directory.set(chunkKey(directoryKeyspace, w.table, int((w.info.Blocks-1)/directoryChunk)), chunk)
}

// Close ends the table.
func (w *TableWriter) Close() error {
	err := w.Flush()
	if err == nil {
		err = w.flushDirectory()
	}
	w.info.Entries = w.Entries()
	w.r.mu.Lock()
	w.r.tables[w.table] = w.info
	w.r.mu.Unlock()
	return errors.Join(err, w.blocks.close(), w.directory.close())
}

// Commit puts the new tables in the place of the old ones and of all live entries, together with everything
// else that was added, durably and in one step: after a crash either all of it is
// there or none. Every table must be closed. The store must be opened again to read
// them.
func (r *Rewrite) Commit(ctx context.Context, plan string, counters Counters) error {
	if err := r.Prepare(plan, counters.NextID, &counters); err != nil {
		return err
	}
	all := pebble.KeyRange{Start: []byte{evenKeyspace}, End: []byte{afterTables}}
	return translateError(r.store.guard(func() error { return r.store.excise(ctx, r.paths, all) }))
}

// Prepare makes everything ready for Take, and durable, while others write. nextID is that of the documents that are packed.
// Counters are left as they are where none are given.
func (r *Rewrite) Prepare(plan string, nextID uint64, counters *Counters) error {
	r.plan, r.nextID = plan, nextID
	err := errors.Join(r.records.close(), r.keys.close(), r.filters.close())
	if err == nil {
		err = r.addMeta(counters)
	}
	if err == nil {
		err = syncDir(r.dir, r.store.fs) // the names of the files, before Pebble links to them
	}
	if err != nil {
		return err
	}
	// Nothing that is replaced may be in memory still: Pebble would excise it later, where no error is told.
	return translateError(r.store.guard(r.store.db.Flush))
}

// exciseSpan are the keys of what is packed and of the epoch that is frozen.
func exciseSpan(e epochs) pebble.KeyRange {
	if keyspaceOf(e.first) == evenKeyspace {
		return pebble.KeyRange{Start: []byte{evenKeyspace}, End: []byte{oddKeyspace}}
	}
	return pebble.KeyRange{Start: []byte{packedKeyspace}, End: []byte{afterTables}}
}

// excise puts files in the place of the tables. What Pebble can not read of a file of
// which only the middle goes, it takes for nothing, and forgets; so the edges are read
// before, where an error is told, and no read may fail meanwhile.
func (s *Store) excise(ctx context.Context, paths []string, span pebble.KeyRange) error {
	it, err := s.db.NewIter(nil)
	if err != nil {
		return err
	}
	it.SeekLT(span.Start)
	err = it.Error()
	if err == nil {
		it.SeekGE(span.End)
	}
	if err = errors.Join(err, it.Error(), it.Close()); err != nil {
		return err
	}
	return s.guarded.Excise(func() error {
		_, err := s.db.IngestAndExcise(ctx, paths, nil, nil, span)
		return err
	})
}

func (r *Rewrite) addMeta(counters *Counters) error {
	meta, t := r.newWriter(), r.store.tables.Load()
	values := map[string][]byte{
		"epochs": t.epochs.packed().encode(),
		"format": encodeFormat(),
		"packed": encodePacked(t.packing.generation+1, r.nextID, r.tables),
		"plan":   []byte(r.plan),
	}
	if counters != nil {
		values["counters"] = counters.encode()
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if err := meta.set(metaKey(name), values[name]); err != nil {
			return errors.Join(err, meta.close())
		}
	}
	return meta.close()
}

// Close removes what is left of the Rewrite. After Commit that is nothing but
// the folder.
func (r *Rewrite) Close() error {
	return errors.Join(r.records.close(), r.keys.close(), r.filters.close(), sweepIncoming(r.store.dir, r.store.fs))
}

// CompactRecords rewrites what is beside the tables: it drops what was deleted or
// replaced, and leaves every key on Pebble's lowest level. It needs up to as much free
// disk as the records take. When ctx ends it, nothing is lost.
func (s *Store) CompactRecords(ctx context.Context) error {
	if err := s.writable(); err != nil {
		return err
	}
	if err := s.overlapSmallFiles(); err != nil {
		return err
	}
	return translateError(s.guard(func() error { return s.db.Compact(ctx, []byte{0}, []byte{evenKeyspace}, true) }))
}

// overlapSmallFiles sees to it that small files are merged. Records grow at their end, so that each flush and each load
// leaves a file of its own, which Pebble only ever moves from level to level. It merges what overlaps: so a
// file over all of them is made, of deletes of keys that no index has.
func (s *Store) overlapSmallFiles() error {
	var levels [][]pebble.SSTableInfo
	err := s.guard(func() (err error) { levels, err = s.db.SSTables(); return err })
	if err != nil {
		return translateError(err)
	}
	b := s.db.NewBatch()
	for _, keyspace := range []byte{documentKeyspace} {
		small := 0
		for _, table := range slices.Concat(levels...) {
			if table.Size < smallFileBytes && bytes.HasPrefix(table.Smallest.UserKey, []byte{keyspace}) {
				small++
			}
		}
		if small > fewSmallFiles {
			err = errors.Join(err, b.Delete([]byte{keyspace}, nil), b.Delete(append(documentKey(math.MaxUint64), 0), nil))
		}
	}
	if err != nil || b.Empty() {
		return errors.Join(err, b.Close())
	}
	return s.commit(b)
}

const (
	// sortedFileBytes is about the size at which the next file begins.
	sortedFileBytes = 128 << 20
	// packedBlockBytes is what Pebble reads at once: some of our blocks.
	packedBlockBytes = 8 << 10

	// More than so many files below so many bytes in one keyspace are merged. For that all of the keyspace is written anew.
	fewSmallFiles  = 8
	smallFileBytes = 128 << 10
)

// sstWriter writes ascending keys of one keyspace into sorted tables of Pebble's, one
// after the other. It makes no file before there is an entry.
type sstWriter struct {
	r       *Rewrite
	options sstable.WriterOptions
	file    *sstable.Writer
	value   []byte // for encoding
}

func (r *Rewrite) newWriter() sstWriter {
	o := r.store.options
	e := sstWriter{r: r, options: o.MakeWriterOptions(len(o.Levels)-1, r.store.db.TableFormat())}
	// Pebble puts these tables above what they overlap. In one that claims to be on the
	// lowest level nothing heeds the deletes.
	e.options.WritingToLowestLevel = false
	return e
}

// newPackedWriter is for what is packed already, and asked for by keys that are there.
func (r *Rewrite) newPackedWriter() sstWriter {
	e := r.newWriter()
	e.options.Compression = sstblock.NoCompression
	e.options.FilterPolicy = pebble.NoFilterPolicy
	e.options.BlockSize = packedBlockBytes
	return e
}

func (e *sstWriter) set(key, value []byte) error {
	if err := e.open(); err != nil {
		return err
	}
	return e.file.Set(key, value)
}

func (e *sstWriter) delete(key []byte) error {
	if err := e.open(); err != nil {
		return err
	}
	return e.file.Delete(key)
}

// open sees to it that there is a file with room.
func (e *sstWriter) open() error {
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
func (e *sstWriter) close() error {
	if e.file == nil {
		return nil
	}
	err := e.file.Close()
	e.file = nil
	return err
}
