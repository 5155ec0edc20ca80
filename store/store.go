// Package store keeps the bytes of an index on disk: one Pebble database whose
// keyspaces, keys and values are laid down in docs/format.md.
//
// It guarantees that a Batch is visible and durable whole or not at all, that a
// View sees one moment of the database, and that a directory that is not an
// index of a format it knows is refused with a named error and left as it was.
// It knows nothing of Hamming distances: what a table is for is package index's
// affair.
//
// A Store, its Views and its Batches may be used from several goroutines at
// once, but any one View or Batch only by one at a time.
package store

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/internal/failfs"
	"github.com/neardup/neardup/internal/fault"
)

// Errors of Open; others that callers tell apart are in package fault.
var (
	// ErrNotIndex: the directory holds something, but not an index.
	ErrNotIndex = errors.New("not a neardup index")

	// ErrVersion: the index was written in a format that this version does not know.
	ErrVersion = errors.New("unknown index format")

	// ErrLocked: another process, or another Open in this one, has the index open.
	ErrLocked = errors.New("index is open elsewhere")
)

// pebbleFormat is part of our own format: raising it means a new Format.
const pebbleFormat = pebble.FormatValueSeparation

// Options say how to open a Store. The zero value opens an existing one for
// reading and writing.
type Options struct {
	Create   *Header // make the store with this header where there is none; nil: it must exist
	ReadOnly bool    // refuse writes; Create is then ignored

	// Accept, if not nil, is asked of a store that is there, before anything that it holds
	// changes: with an error it is not opened.
	Accept func(Header, Counters) error

	CacheBytes int64        // for packed blocks, up to three quarters, and for Pebble; 0: see cache.go
	FS         vfs.FS       // nil: that of the operating system
	Logger     *slog.Logger // nil: none

	remains bool // of OpenRemains: neither meta nor the packed tables are read
}

const (
	maxMemTableBytes = 32 << 20 // what is replayed at open after a crash; Pebble takes one or two off the cache
	minMemTableBytes = 16 << 20
	indexBlockBytes  = 32 << 10 // a file has several: larger ones push each other out of a small cache, which is divided
	l0Runs           = 16       // memtables on the disk that are merged together; a look-up may ask the Bloom filter of each
	bloomBitsPerKey  = 10       // about 1 % of look-ups of absent keys read a block
)

// Store is an open index directory.
type Store struct {
	documents
	db       *pebble.DB
	dir      string
	fs       vfs.FS     // for what is not Pebble's
	guarded  *failfs.FS // what Pebble writes to
	options  *pebble.Options
	lock     *dirLock
	meta     Meta // as of Open
	readOnly bool

	checkpoints chan struct{} // has one while one is made

	tables      atomic.Pointer[Tables] // of now
	pebbleCache *pebbleCache

	last        atomic.Pointer[Commit] // the newest commit that was applied
	lastMetrics atomic.Pointer[pebble.Metrics]

	failed atomic.Pointer[error] // the first commit that could not be made durable
}

// Open opens the store in dir, or makes it. Errors: fs.ErrNotExist, ErrNotIndex,
// ErrVersion, ErrLocked, fault.ErrCorrupt, and those of the file system.
func Open(dir string, opts Options) (*Store, error) {
	opts.FS = fileSystem(opts.FS)
	if opts.ReadOnly {
		opts.Create = nil
	}
	s, err := open(dir, opts)
	if err != nil {
		err = fmt.Errorf("open index %s: %w", dir, explainOpenFiles(err))
		if errors.Is(err, fault.ErrCorrupt) {
			err = fmt.Errorf("%w; restore a checkpoint, or copy what can be read into a new index (repair)", err)
		}
		return nil, err
	}
	return s, nil
}

func open(dir string, opts Options) (*Store, error) {
	if err := prepareDir(dir, opts); err != nil {
		return nil, err
	}
	dir, err := canonicalDir(dir, opts.FS)
	if err != nil {
		return nil, err
	}
	lock, err := lockDir(dir, opts.FS)
	if err != nil {
		return nil, err
	}
	s := &Store{dir: dir, readOnly: opts.ReadOnly, checkpoints: make(chan struct{}, 1), lock: lock}
	s.fs = opts.FS
	s.guarded = failfs.New(opts.FS, dir, func(err error) { s.fail(err) })
	if !opts.ReadOnly {
		err = sweepIncoming(dir, s.fs) // first: what the log takes as tables may have no room beside it
	}
	if err != nil {
		return nil, errors.Join(err, lock.own.Close())
	}
	cache := pebble.NewCache(pebbleCacheBytes(opts.CacheBytes) + writeBytes(opts.CacheBytes))
	defer cache.Unref()
	opts.FS = s.guarded
	s.pebbleCache = newPebbleCache(cache, opts.CacheBytes)
	s.options = pebbleOptions(opts, cache)
	s.options.Lock = lock.own
	defer s.options.FileCache.Unref() // Pebble holds a reference of its own
	if s.db, err = s.guarded.OpenDB(s.options); err != nil {
		s.pebbleCache.close()
		return nil, errors.Join(s.openError(err), s.unlock())
	}
	if m := s.db.Metrics().MemTable; m.Size+m.ZombieSize > 1<<20 {
		s.pebbleCache.replays() // what was replayed is in memtables
	}
	if err = s.load(opts); err != nil {
		return nil, errors.Join(err, s.closeDB())
	}
	return s, nil
}

// load reads what there is, or makes it.
func (s *Store) load(opts Options) error {
	s.documents.from = s.db
	s.tables.Store(s.newTables(packing{}, epochs{}))
	if opts.remains {
		return nil
	}
	found, err := s.loadMeta()
	switch {
	case err != nil:
		return err
	case !found && opts.Create == nil:
		return fmt.Errorf("no index there: %w", fs.ErrNotExist)
	case !found:
		return s.create(*opts.Create)
	}
	if opts.Accept != nil {
		err = opts.Accept(*s.meta.Header, *s.meta.Counters)
	}
	if err != nil {
		return err
	}
	t, err := s.openTables(packing{s.meta.Header.Plan, s.meta.Generation, s.meta.NextID, s.meta.Packed}, s.meta.epochs)
	if err != nil {
		return err
	}
	s.replace(t)
	return nil
}

// loadMeta reads what meta says. It reports false for a database that has no entry at all: one that was
// being made when the machine stopped.
func (s *Store) loadMeta() (found bool, err error) {
	v, err := s.View()
	if err != nil {
		return false, err
	}
	err = v.entries(nil, nil, func([]byte, []byte) bool { found = true; return false })
	if err == nil && found {
		s.meta, err = v.Meta()
	}
	return found, errors.Join(err, v.Close())
}

// openTables opens the packed tables, if there are any, with a cache of their own.
func (s *Store) openTables(packed packing, live epochs) (*Tables, error) {
	t := s.newTables(packed, live)
	limit, pebble := packedCacheBytes(packed.tables, s.pebbleCache.total)
	t.cache = newBlockCache(limit)
	for i, info := range packed.tables {
		p, err := openPackedTable(i, info.Entries, info.Blocks, t.cache, t)
		if err != nil {
			t.cache.release()
			return nil, err
		}
		t.packed = append(t.packed, p)
	}
	s.pebbleCache.packed(pebble)
	return t, nil
}

func pebbleOptions(opts Options, cache *pebble.Cache) *pebble.Options {
	o := &pebble.Options{
		Cache:              cache,
		Comparer:           comparer,
		EventListener:      &pebble.EventListener{DataCorruption: failfs.CorruptionIsReturned},
		FileCache:          newFileCache(),
		FormatMajorVersion: pebbleFormat,
		FS:                 opts.FS,
		Logger:             pebbleLogger{opts.Logger},
		MemTableSize:       memTableBytes(pebbleCacheBytes(opts.CacheBytes)),

		L0CompactionThreshold: l0Runs,
		L0StopWritesThreshold: 4 * l0Runs,
		ReadOnly:              opts.ReadOnly,
	}
	for i := range o.Levels {
		o.Levels[i].IndexBlockSize = indexBlockBytes
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(bloomBitsPerKey)
	}
	o.Levels[len(o.Levels)-1].FilterPolicy = pebble.NoFilterPolicy // a Get does not ask those of the lowest level
	o.Experimental.SpanPolicyFunc = recordsApart
	o.EnsureDefaults()
	return o
}

// memTableBytes is a sixteenth of the memory for caches: the larger, the less often what is written is merged.
func memTableBytes(cache int64) uint64 {
	return uint64(min(max(cache/16, minMemTableBytes), maxMemTableBytes))
}

// recordsApart lets Pebble put the records in files of their own. They are most of the bytes and come in the
// order of their keys, so that no file of them overlaps with another, and none has to be merged; with keys and
// tables in the same files they would be written again with each of theirs.
func recordsApart(start []byte) (policy pebble.SpanPolicy, end []byte, err error) {
	switch {
	case bytes.Compare(start, []byte{documentKeyspace}) < 0:
		end = []byte{documentKeyspace}
	case start[0] == documentKeyspace:
		end = keyspaceEnd(documentKeyspace)
	}
	return policy, end, nil
}

// pebbleLogger hands Pebble's messages to the caller's logger.
type pebbleLogger struct{ logger *slog.Logger }

func (l pebbleLogger) Infof(format string, args ...any) {
	if l.logger != nil {
		l.logger.Debug(fmt.Sprintf(format, args...), "from", "pebble")
	}
}

func (l pebbleLogger) Errorf(format string, args ...any) {
	if l.logger != nil {
		l.logger.Error(fmt.Sprintf(format, args...), "from", "pebble")
	}
}

// Fatalf is called where Pebble can not go on without risking data. It must not
// return; a panic leaves a trace, which an exit would not. What a file system can cause is
// kept from Pebble by failfs, so this is for errors in Pebble itself.
func (l pebbleLogger) Fatalf(format string, args ...any) {
	l.Errorf(format, args...)
	panic(fmt.Sprintf("neardup/store: "+format, args...))
}

// translateError gives Pebble's errors the name that a caller of ours matches.
func translateError(err error) error {
	switch {
	case err == nil || errors.Is(err, fault.ErrCorrupt):
		return err
	case pebble.IsCorruptionError(err):
		if info := pebble.ExtractDataCorruptionInfo(err); info != nil {
			return fmt.Errorf("%w: %s: %w", fault.ErrCorrupt, info.Path, firstLine{err})
		}
		return fmt.Errorf("%w: %w", fault.ErrCorrupt, err)
	case errors.Is(err, pebble.ErrReadOnly):
		return fmt.Errorf("%w: %w", fault.ErrReadOnly, err)
	}
	return explainOpenFiles(err)
}

// openError translates an error of Pebble's Open for a directory that holds a database. If the
// operating system has not caused the error, then the files do not fit together. A caller must not
// take an index that lacks a file for a directory without an index.
func (s *Store) openError(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %v", fault.ErrCorrupt, firstLine{err})
	}
	if s.guarded.Err() != nil || pebble.IsCorruptionError(err) || fault.Denied(err) || errors.As(err, new(syscall.Errno)) {
		return translateError(err)
	}
	return fmt.Errorf("%w: %w", fault.ErrCorrupt, firstLine{err})
}

// firstLine is an error of Pebble's without the carrier of details in its second line.
type firstLine struct{ error }

func (e firstLine) Unwrap() error { return e.error }

func (e firstLine) Error() string {
	line, _, _ := strings.Cut(e.error.Error(), "\n")
	return line
}

// guard calls Pebble. It returns ErrFailed where the store has failed, or fails meanwhile: the call may never
// end.
func (s *Store) guard(call func() error) error { return s.guarded.Do(0, call) }

// Close waits for background work and makes everything durable that was applied; where
// the store has failed it does neither, and says so. No View may be open.
func (s *Store) Close() error { return errors.Join(s.Sync(), s.closeDB()) }

func (s *Store) closeDB() error {
	s.pebbleCache.close()
	if t := s.tables.Load(); t != nil {
		t.Release()
	}
	return errors.Join(translateError(s.guarded.CloseDB(s.db)), s.unlock())
}

// unlock gives the directory back.
func (s *Store) unlock() error {
	if s.guarded.Err() == nil {
		return s.lock.own.Close()
	}
	s.options.Cache.Reserve(int(s.options.Cache.MaxSize())) // Pebble is abandoned, and this can be given back
	return s.lock.Close()
}

// DiskBytes returns the bytes that the store takes on disk, its log included.
func (s *Store) DiskBytes() uint64 { return s.Metrics().DiskSpaceUsage() }

// CachedBytes returns what Pebble's cache holds.
func (s *Store) CachedBytes() int64 { return s.Metrics().BlockCache.Size }

// Metrics are Pebble's, as they were last when the store has failed.
func (s *Store) Metrics() *pebble.Metrics {
	s.guard(func() error {
		s.lastMetrics.Store(s.db.Metrics())
		return nil
	})
	if m := s.lastMetrics.Load(); m != nil {
		return m
	}
	return &pebble.Metrics{}
}

// Stalls returns how often writes waited for Pebble's work in the background, and how long in all.
func (s *Store) Stalls() (count uint64, took time.Duration) { return s.guarded.Stalls() }
