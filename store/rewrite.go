package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"sync"

	"github.com/RoaringBitmap/roaring/v2/roaring64"
	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/v2/sstable"
	sstblock "github.com/cockroachdb/pebble/v2/sstable/block"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/store/internal/block"
)

// incomingDir is the directory of the index in which a Rewrite writes its files.
const incomingDir = "incoming"

// Rewrite writes new packed tables with their directories and filters, and adds and deletes records
// and keys. Commit or Take installs all of these changes in one step. Until then, readers do not
// see any of them, and a crash discards them.
//
// Tables may be written concurrently with each other, and with records, keys and filters. Otherwise
// a Rewrite is not safe for concurrent use.
type Rewrite struct {
	store *Store
	dir   string

	mu      sync.Mutex
	paths   []string // of the files to install
	created int      // number of files

	tables  []tableInfo
	plan    string    // argument of Prepare
	nextID  uint64    // argument of Prepare
	records sstWriter // added records
	deleted sstWriter // deleted records
	counts  sstWriter
	keys    sstWriter
	filters sstWriter
}

// NewRewrite starts a Rewrite with a number of tables. A store can have one Rewrite at a time. The
// caller must prevent writes to the store until the Rewrite is committed or closed, unless the
// caller has called Freeze before and installs the Rewrite with Take.
func (s *Store) NewRewrite(tables int) (*Rewrite, error) {
	if err := s.writable(); err != nil {
		return nil, err
	}
	r := &Rewrite{store: s, dir: s.fs.PathJoin(s.dir, incomingDir),
		tables: make([]tableInfo, tables)}
	r.records, r.deleted, r.counts, r.keys, r.filters = r.newWriter(), r.newWriter(), r.newWriter(),
		r.newWriter(), r.newPackedWriter()
	if err := sweepIncoming(s.dir, s.fs); err != nil {
		return nil, err
	}
	return r, s.fs.MkdirAll(r.dir, 0o700)
}

// SetTables changes the number of tables. It must be called before the first table is written.
func (r *Rewrite) SetTables(tables int) { r.tables = make([]tableInfo, tables) }

// Entries returns the number of fingerprints of each table. Table 0 must have been closed.
func (r *Rewrite) Entries() uint64 { return r.tables[0].Entries }

// Dir returns a directory of FS for temporary files. Close removes it.
func (r *Rewrite) Dir() string { return r.dir }

// FS returns the file system of the store. If another directory has replaced the directory of the
// store, FS does not write to it.
func (r *Rewrite) FS() vfs.FS { return r.store.fs }

// sweepIncoming removes the files of an interrupted Rewrite.
func sweepIncoming(dir string, fsys vfs.FS) error {
	incoming := fsys.PathJoin(dir, incomingDir)
	if _, err := fsys.Stat(incoming); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return fsys.RemoveAll(incoming)
}

// AddRecord writes the record of a document. It must be called in ascending order of the IDs.
func (r *Rewrite) AddRecord(record Record) error {
	w := &r.records
	w.key, w.value = appendDocumentKey(w.key[:0], record.ID), record.appendTo(w.value[:0])
	return w.set(w.key, w.value)
}

// DeleteRecord deletes the record and the count of duplicates of a stored document. The ID must
// be less than the IDs of all added records. See AddRecord.
func (r *Rewrite) DeleteRecord(id uint64) error {
	return errors.Join(r.deleted.delete(documentKey(id)), r.counts.delete(countKey(id)))
}

// WithdrawRecords removes some of the added records: it copies the other records to new files. If
// ctx ends first, it returns the error of ctx.
func (r *Rewrite) WithdrawRecords(ctx context.Context, withdrawn *roaring64.Bitmap) (err error) {
	if err := r.records.close(); err != nil {
		return err
	}
	old := r.records.paths
	r.records = r.newWriter()
	for _, path := range old {
		if err := r.copyRecords(ctx, path, withdrawn); err != nil {
			return err
		}
		r.paths = slices.DeleteFunc(r.paths, func(p string) bool { return p == path })
		if err := r.store.fs.Remove(path); err != nil {
			return err
		}
	}
	return nil
}

// copyRecords adds the records of a file, without some of them.
func (r *Rewrite) copyRecords(
	ctx context.Context, path string, without *roaring64.Bitmap,
) (err error) {
	file, err := r.store.fs.Open(path, vfs.SequentialReadsOption)
	if err != nil {
		return err
	}
	it, err := pebble.NewExternalIterWithContext(ctx, r.store.options, nil,
		[][]sstable.ReadableFile{{file}})
	if err != nil {
		return err // Pebble has closed the file
	}
	defer func() { err = translateError(errors.Join(err, it.Close())) }()
	for n, ok := 0, it.First(); ok; n, ok = n+1, it.Next() {
		if n%recordsPerCheck == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if without.Contains(binary.BigEndian.Uint64(it.Key()[1:])) {
			continue
		}
		value, err := it.ValueAndErr()
		if err == nil {
			err = r.records.set(it.Key(), value)
		}
		if err != nil {
			return err
		}
	}
	return it.Error()
}

// recordsPerCheck is the number of records that are copied between two checks of the context.
const recordsPerCheck = 4096

// AddKey adds an entry of a key hash and a document ID. AddKey and DeleteKey must be called in
// ascending order of hash and ID.
func (r *Rewrite) AddKey(hash, id uint64) error {
	r.keys.key = appendKeyKey(r.keys.key[:0], hash, id)
	return r.keys.set(r.keys.key, nil)
}

// DeleteKey deletes an entry of a key hash and a document ID. See AddKey.
func (r *Rewrite) DeleteKey(hash, id uint64) error { return r.keys.delete(keyKey(hash, id)) }

// AddFilterChunk writes a chunk of the prefix filter of a table. It must be called in ascending
// order of table and chunk.
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
	info      tableInfo
}

// Table returns a writer for a table. Entries of table 0, which have IDs, are added with
// AddPosting, entries of other tables with Add. Close must be called.
func (r *Rewrite) Table(table int) *TableWriter {
	w := &TableWriter{r: r, table: table, blocks: r.newPackedWriter(),
		directory: r.newPackedWriter()}
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
	chunk, err := block.Encode(w.lasts)
	if err != nil {
		return err
	}
	w.lasts = w.lasts[:0]
	return w.directory.set(chunkKey(directoryKeyspace, w.table,
		int((w.info.Blocks-1)/directoryChunk)), chunk)
}

// Close writes the last block and the directory of the table.
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

// Commit replaces the packed tables and all epochs by the new tables, and adds and deletes the
// records and keys, in one durable step. A crash leaves all of these changes or none. Every table
// must be closed. The store must be opened again to read the new tables.
func (r *Rewrite) Commit(ctx context.Context, plan string, counters Counters) error {
	if err := r.Prepare(plan, counters.NextID, &counters); err != nil {
		return err
	}
	all := pebble.KeyRange{Start: []byte{evenKeyspace}, End: []byte{afterTables}}
	return translateError(r.store.guard(func() error { return r.store.excise(ctx, r.paths, all) }))
}

// Prepare makes the files of the Rewrite durable for Take. Other goroutines may write to the store
// during the call. All packed documents must have IDs below nextID. If counters is nil, the stored
// counters do not change.
func (r *Rewrite) Prepare(plan string, nextID uint64, counters *Counters) error {
	r.plan, r.nextID = plan, nextID
	err := errors.Join(r.records.close(), r.deleted.close(), r.counts.close(), r.keys.close(),
		r.filters.close())
	if err == nil {
		err = r.addMeta(counters)
	}
	if err == nil {
		err = syncDir(r.dir, r.store.fs) // the names of the files, before Pebble links to them
	}
	if err != nil {
		return err
	}
	// No replaced entry may be in a memtable: Pebble would excise it later, without a way to report
	// errors.
	return translateError(r.store.guard(r.store.db.Flush))
}

// exciseSpan returns the span of the packed tables and the frozen epoch.
func exciseSpan(e epochs) pebble.KeyRange {
	if keyspaceOf(e.first) == evenKeyspace {
		return pebble.KeyRange{Start: []byte{evenKeyspace}, End: []byte{oddKeyspace}}
	}
	return pebble.KeyRange{Start: []byte{packedKeyspace}, End: []byte{afterTables}}
}

// excise ingests files and deletes all other keys of a span. If Pebble cannot read the part of a
// file outside of the span, it treats that part as empty. So excise first reads both edges of the
// span, to report errors, and failfs stops the database if a read fails during the excision.
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
	s.jobs.begin()
	defer s.jobs.end()
	return s.guarded.Excise(func() error {
		_, err := s.db.IngestAndExcise(ctx, paths, nil, nil, span)
		return err
	})
}

// packing describes the tables after the Rewrite has replaced the tables before it.
func (r *Rewrite) packing(before *Tables) packing {
	return packing{before.packing.generation + 1, r.nextID, r.tables}
}

func (r *Rewrite) addMeta(counters *Counters) error {
	w, t := r.newWriter(), r.store.tables.Load()
	m := Meta{Plan: r.plan, packing: r.packing(t), epochs: t.epochs.packed()}
	names := []string{"epochs", "format", "packed", "plan"}
	if counters != nil {
		m.Counters, names = *counters, append([]string{"counters"}, names...)
	}
	for _, name := range names {
		if err := w.set(metaKey(name), m.encode(name)); err != nil {
			return errors.Join(err, w.close())
		}
	}
	return w.close()
}

// Close removes the directory of the Rewrite, with all files that were not installed.
func (r *Rewrite) Close() error {
	return errors.Join(r.records.close(), r.deleted.close(), r.counts.close(), r.keys.close(),
		r.filters.close(), sweepIncoming(r.store.dir, r.store.fs))
}

// CompactRecords compacts all keyspaces except the tables. It drops deleted and replaced entries,
// and moves every key to Pebble's lowest level. The free disk space that it needs is at most the
// size of the records. If ctx ends first, the remaining keyspaces are not compacted, and no entry
// is lost.
func (s *Store) CompactRecords(ctx context.Context) error {
	if err := s.writable(); err != nil {
		return err
	}
	if err := s.overlapSmallFiles(); err != nil {
		return err
	}
	// If a context ends between two steps of a manual compaction, Pebble panics in another
	// goroutine, because it does not find the compaction that it has picked.
	uncancelled := context.WithoutCancel(ctx)
	for _, keyspace := range []byte{documentKeyspace, keyKeyspace, metaKeyspace, countKeyspace} {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := s.guard(func() error {
			return s.db.Compact(uncancelled, []byte{keyspace}, keyspaceEnd(keyspace), true)
		}); err != nil {
			return translateError(err)
		}
	}
	return nil
}

// overlapSmallFiles makes Pebble merge small files of records. Records are appended in the order
// of their keys, so each flush and each load creates a file that overlaps with no other file, and
// Pebble only moves such files from level to level. overlapSmallFiles deletes two keys that no
// index has, one before and one after all records. The file of these deletes overlaps with all
// files.
func (s *Store) overlapSmallFiles() error {
	var levels [][]pebble.SSTableInfo
	err := s.guard(func() (err error) { levels, err = s.db.SSTables(); return err })
	if err != nil {
		return translateError(err)
	}
	small := 0
	for _, table := range slices.Concat(levels...) {
		first := table.Smallest.UserKey
		if table.Size < smallFileBytes && bytes.HasPrefix(first, []byte{documentKeyspace}) {
			small++
		}
	}
	if small <= fewSmallFiles {
		return nil
	}
	b := s.db.NewBatch()
	if err := errors.Join(b.Delete([]byte{documentKeyspace}, nil),
		b.Delete(append(documentKey(math.MaxUint64), 0), nil)); err != nil {
		return errors.Join(err, b.Close())
	}
	return s.commit(b)
}

const (
	// sortedFileBytes is the approximate size of a file.
	sortedFileBytes = 128 << 20
	// packedBlockBytes is the size of Pebble's blocks, which contain several packed blocks.
	packedBlockBytes = 8 << 10

	// More than fewSmallFiles files below smallFileBytes are merged. The merge rewrites the whole
	// keyspace.
	fewSmallFiles  = 8
	smallFileBytes = 128 << 10
)

// sstWriter writes ascending keys of one keyspace into a sequence of Pebble's sorted tables. It
// creates no file before the first entry.
type sstWriter struct {
	r       *Rewrite
	options sstable.WriterOptions
	file    *sstable.Writer
	paths   []string // of all files

	key, value []byte // for encoding
}

func (r *Rewrite) newWriter() sstWriter {
	o := r.store.options
	e := sstWriter{r: r, options: o.MakeWriterOptions(len(o.Levels)-1, r.store.db.TableFormat())}
	// Pebble puts these tables above the tables that they overlap. Deletes in a table that claims
	// to be on the lowest level would have no effect.
	e.options.WritingToLowestLevel = false
	return e
}

// newPackedWriter returns a writer for values that are compressed already. It writes no Bloom
// filters, because only existing keys are looked up.
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

// open creates a file if no file is open or the open file is full.
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
	path := s.fs.PathJoin(e.r.dir, fmt.Sprintf("%06d.sst", e.r.created))
	e.r.paths = append(e.r.paths, path)
	e.r.created++
	e.r.mu.Unlock()
	e.paths = append(e.paths, path)
	f, err := s.fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	e.file = sstable.NewWriter(objstorageprovider.NewFileWritable(f), e.options)
	return nil
}

// close finishes the current file, if any, and makes it durable.
func (e *sstWriter) close() error {
	if e.file == nil {
		return nil
	}
	err := e.file.Close()
	e.file = nil
	return err
}
