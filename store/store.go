// Package store reads and writes the files of an index: one Pebble database. docs/format.md
// specifies its keyspaces, keys and values.
//
// A Batch is visible and durable as a whole or not at all. A View shows one snapshot of the
// database. If a directory is not an index of a known format, Open returns a named error and does
// not change the directory. The package does not compute Hamming distances. Package index
// determines the content of the tables.
//
// A Store is safe for concurrent use. A View or a Batch is for one goroutine at a time.
package store

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/internal/failfs"
	"github.com/neardup/neardup/internal/fault"
)

// pebbleFormat is part of the storage format: a change to it requires a new Format.
const pebbleFormat = pebble.FormatValueSeparation

// Options configure Open. The zero value opens an existing store for reading and writing.
type Options struct {
	// Create, if not nil, has the plan and the analyzer of the store that Open creates if dir has
	// none.
	Create   *Meta
	ReadOnly bool // refuse writes; Create is then ignored

	// Accept, if not nil, is called with the meta entries of an existing store before Open changes
	// it. If Accept returns an error, then Open returns that error.
	Accept func(Meta) error

	// CacheBytes is the memory for packed blocks, which get at most three quarters, and for
	// Pebble's cache. If it is 0, the defaults in arena.go apply.
	CacheBytes int64
	FillArena  bool         // read all packed blocks into memory in the background
	FS         vfs.FS       // nil: the file system of the operating system
	Logger     *slog.Logger // nil: none
	Damaged    bool         // read neither meta nor packed tables, for View.Remains
}

const (
	// bounds the log that is replayed after a crash; one or two memtables take room from Pebble's
	// cache
	maxMemTableBytes = 32 << 20
	minMemTableBytes = 16 << 20
	// larger index blocks of a file would evict each other from a shard of a small cache
	indexBlockBytes = 32 << 10
	// number of flushed memtables that Pebble merges; a lookup may read the Bloom filter of each
	l0Runs          = 16
	bloomBitsPerKey = 10 // about 1 % of the lookups of absent keys read a block
)

// Store is an open index directory.
type Store struct {
	db       *pebble.DB
	dir      string
	fs       vfs.FS     // for files that Pebble does not write
	guarded  *failfs.FS // for Pebble
	options  *pebble.Options
	lock     *dirLock
	meta     Meta // at the time of Open
	readOnly bool

	checkpoints chan struct{} // contains a value during a checkpoint

	tables     atomic.Pointer[Tables] // the current tables
	cacheBytes int64                  // Options.CacheBytes
	fillsArena bool                   // Options.FillArena
	filling    sync.WaitGroup         // the goroutines that fill arenas
	unreserve  func()                 // returns the share of packed blocks to Pebble's cache

	last        atomic.Pointer[Commit] // the newest commit that was applied
	lastMetrics atomic.Pointer[pebble.Metrics]
	stalls      stalls
	jobs        jobs

	failed atomic.Pointer[error] // the first commit that could not be made durable
}

// Open opens or creates the store in dir. Errors are fs.ErrNotExist, errors of the file system, and
// ErrNotIndex, ErrVersion, ErrLocked and ErrCorrupt of package index.
func Open(dir string, opts Options) (*Store, error) {
	if opts.FS == nil {
		opts.FS = vfs.Default
	}
	if opts.ReadOnly {
		opts.Create = nil
	}
	s, err := openDB(dir, opts)
	if err != nil {
		err = ifCorrupt(err, "it cannot be repaired: restore a checkpoint")
	} else if err = s.load(opts); err != nil {
		err = ifCorrupt(err,
			"restore a checkpoint, or copy what can be read into a new index (repair)")
		err = errors.Join(err, s.closeDB())
	}
	if err != nil {
		return nil, fmt.Errorf("open index %s: %w", dir, explainOpenFiles(err))
	}
	return s, nil
}

// ifCorrupt adds advice to an error that is ErrCorrupt.
func ifCorrupt(err error, advice string) error {
	if errors.Is(err, fault.ErrCorrupt) {
		return fmt.Errorf("%w; %s", err, advice)
	}
	return err
}

// openDB opens or creates the database. Repair needs a database that openDB can open.
func openDB(dir string, opts Options) (*Store, error) {
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
	s := &Store{dir: dir, fs: opts.FS, lock: lock, checkpoints: make(chan struct{}, 1),
		readOnly: opts.ReadOnly, cacheBytes: opts.CacheBytes, fillsArena: opts.FillArena}
	s.guarded = failfs.New(opts.FS, dir, func(err error) { s.fail(err) })
	if !opts.ReadOnly {
		// before Pebble replays the log, which may need the space for tables
		err = sweepIncoming(dir, s.fs)
	}
	if err != nil {
		return nil, errors.Join(err, lock.own.Close())
	}
	cache := pebble.NewCache(pebbleCacheBytes(opts.CacheBytes) + writeBytes(opts.CacheBytes))
	defer cache.Unref()
	opts.FS = s.guarded
	s.options = pebbleOptions(opts, cache)
	listener := pebble.TeeEventListener(*s.stalls.listener(), s.jobs.listener())
	s.options.EventListener = &listener
	s.options.Lock = lock.own
	defer s.options.FileCache.Unref() // Pebble holds a reference of its own
	if s.db, err = s.guarded.OpenDB(s.options); err != nil {
		return nil, errors.Join(s.openError(err), s.unlock())
	}
	return s, nil
}

// load reads the meta entries and opens the tables, or creates the store.
func (s *Store) load(opts Options) error {
	if opts.Damaged {
		s.tables.Store(s.newTables(packing{}, epochs{0, 1}))
		return nil
	}
	s.tables.Store(s.newTables(packing{}, epochs{}))
	found, err := s.loadMeta()
	switch {
	case err != nil:
		return err
	case !found && opts.Create == nil:
		return fmt.Errorf("there is no index: %w", fs.ErrNotExist)
	case !found:
		return s.create(opts.Create.Plan, opts.Create.Analyzer)
	}
	if opts.Accept != nil {
		err = opts.Accept(s.meta)
	}
	if err != nil {
		return err
	}
	t, err := s.openTables(s.meta.packing, s.meta.epochs)
	if err != nil {
		return err
	}
	s.startFilling(t, nil)
	s.replace(t)
	return nil
}

// loadMeta reads the meta entries. It reports false if the database has no entries at all, as after
// an interrupted creation.
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

// openTables opens the packed tables, if any, with a new arena.
func (s *Store) openTables(packed packing, live epochs) (*Tables, error) {
	t := s.newTables(packed, live)
	t.arena = newArena(packedCacheBytes(packed.tables, s.cacheBytes))
	for i, info := range packed.tables {
		p, err := openPackedTable(i, info.Entries, info.Blocks, t.arena, t)
		if err != nil {
			t.arena.release()
			return nil, err
		}
		t.packed = append(t.packed, p)
	}
	s.splitCache(t.arena.limit)
	return t, nil
}

func pebbleOptions(opts Options, cache *pebble.Cache) *pebble.Options {
	o := &pebble.Options{
		Cache:              cache,
		Comparer:           comparer,
		FileCache:          newFileCache(),
		FormatMajorVersion: pebbleFormat,
		FS:                 opts.FS,
		Logger:             pebbleLogger{opts.Logger},
		Merger:             merger,
		MemTableSize:       memTableBytes(pebbleCacheBytes(opts.CacheBytes)),

		L0CompactionThreshold: l0Runs,
		L0StopWritesThreshold: 4 * l0Runs,
		ReadOnly:              opts.ReadOnly,
	}
	for i := range o.Levels {
		o.Levels[i].IndexBlockSize = indexBlockBytes
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(bloomBitsPerKey)
	}
	// Get does not read the filters of the lowest level
	o.Levels[len(o.Levels)-1].FilterPolicy = pebble.NoFilterPolicy
	o.Experimental.SpanPolicyFunc = recordsApart
	o.EnsureDefaults()
	return o
}

// memTableBytes returns a sixteenth of the memory for caches, within bounds. Larger memtables are
// merged less often.
func memTableBytes(cache int64) uint64 {
	return uint64(min(max(cache/16, minMemTableBytes), maxMemTableBytes))
}

// recordsApart makes Pebble write records to separate files. Records are most of the bytes and are
// written in the order of their keys, so files of records do not overlap and need no merges. If
// records shared files with keys and tables, each merge of keys or tables would rewrite them.
func recordsApart(start []byte) (policy pebble.SpanPolicy, end []byte, err error) {
	switch {
	case bytes.Compare(start, []byte{documentKeyspace}) < 0:
		end = []byte{documentKeyspace}
	case start[0] == documentKeyspace:
		end = keyspaceEnd(documentKeyspace)
	}
	return policy, end, nil
}

// pebbleLogger passes Pebble's messages to the logger of Options.
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

// Fatalf is called if Pebble cannot continue without a risk to data. It must not return. It panics,
// since a panic leaves a stack trace and an exit does not. failfs keeps errors of the file system
// from Pebble, so Fatalf reports errors in Pebble itself.
func (l pebbleLogger) Fatalf(format string, args ...any) {
	l.Errorf(format, args...)
	panic(fmt.Sprintf("neardup/store: "+format, args...))
}

// translateError wraps Pebble's errors in the errors that callers of this package match.
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

// openError translates an error of Pebble's Open for a directory that contains a database. An error
// that the operating system did not cause means that the files are inconsistent. A missing file is
// ErrCorrupt, because callers take fs.ErrNotExist for a directory without an index.
func (s *Store) openError(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %v", fault.ErrCorrupt, firstLine{err})
	}
	if s.guarded.Err() != nil || pebble.IsCorruptionError(err) || fault.Denied(err) ||
		errors.As(err, new(syscall.Errno)) {
		return translateError(err)
	}
	return fmt.Errorf("%w: %w", fault.ErrCorrupt, firstLine{err})
}

// firstLine is an error of Pebble without the details in its second line.
type firstLine struct{ error }

func (e firstLine) Unwrap() error { return e.error }

func (e firstLine) Error() string {
	line, _, _ := strings.Cut(e.error.Error(), "\n")
	return line
}

// guard calls Pebble. If the store has failed or fails during the call, guard returns ErrFailed
// without waiting for the call, which may never return.
func (s *Store) guard(call func() error) error { return s.guarded.Do(0, call) }

// Close makes all applied batches durable and waits for background work. If the store has failed,
// it does neither and returns ErrFailed. No View may be open.
func (s *Store) Close() error { return errors.Join(s.Sync(), s.closeDB()) }

func (s *Store) closeDB() error {
	t := s.tables.Load()
	if t.arena != nil {
		t.arena.stopFilling()
	}
	t.Release()
	s.waitForFilling()
	_ = s.guard(func() error { s.jobs.closing.Wait(); return nil })
	s.splitCache(0)
	return errors.Join(translateError(s.guarded.CloseDB(s.db)), s.unlock())
}

// unlock releases the lock of the directory.
func (s *Store) unlock() error {
	if s.guarded.Err() == nil {
		return s.lock.own.Close()
	}
	// Pebble is abandoned, but its cache can be freed
	s.options.Cache.Reserve(int(s.options.Cache.MaxSize()))
	return s.lock.Close()
}

// DiskBytes returns the bytes of the store on disk, including its log.
func (s *Store) DiskBytes() uint64 { return s.Metrics().DiskSpaceUsage() }

// CachedBytes returns the bytes in Pebble's cache.
func (s *Store) CachedBytes() int64 { return s.Metrics().BlockCache.Size }

// Metrics returns Pebble's metrics. If the store has failed, it returns the last metrics that were
// read before the failure.
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

// Stalls returns how often writes waited for Pebble's background work, and how long in total.
func (s *Store) Stalls() (count uint64, took time.Duration) {
	return s.stalls.count.Load(), time.Duration(s.stalls.took.Load())
}

// stalls counts writes that waited for Pebble's background work.
type stalls struct {
	count       atomic.Uint64
	since, took atomic.Int64 // in nanoseconds
}

func (s *stalls) listener() *pebble.EventListener {
	return &pebble.EventListener{
		WriteStallBegin: func(pebble.WriteStallBeginInfo) {
			s.count.Add(1)
			s.since.Store(time.Now().UnixNano())
		},
		WriteStallEnd: func() { s.took.Add(time.Now().UnixNano() - s.since.Load()) },
	}
}

// jobs counts Pebble's flushes, compactions and ingestions. Each creates a new version of the
// database. Closing the last iterator of an older version removes the blocks of obsolete files from
// the cache, which can take a second. So a separate goroutine closes an iterator that can be the
// last one.
type jobs struct {
	running atomic.Int64
	count   atomic.Uint64 // of begins and ends
	closing sync.WaitGroup
}

func (j *jobs) begin() {
	j.running.Add(1)
	j.count.Add(1)
}

func (j *jobs) end() {
	j.count.Add(1)
	j.running.Add(-1)
}

// none reports whether no job has run since the count was read.
func (j *jobs) none(since uint64) bool { return j.running.Load() == 0 && j.count.Load() == since }

func (j *jobs) listener() pebble.EventListener {
	return pebble.EventListener{
		FlushBegin:           func(pebble.FlushInfo) { j.begin() },
		FlushEnd:             func(pebble.FlushInfo) { j.end() },
		CompactionBegin:      func(pebble.CompactionInfo) { j.begin() },
		CompactionEnd:        func(pebble.CompactionInfo) { j.end() },
		BlobFileRewriteBegin: func(pebble.BlobFileRewriteInfo) { j.begin() },
		BlobFileRewriteEnd:   func(pebble.BlobFileRewriteInfo) { j.end() },
	}
}
