package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"
)

// pebbleFormat is part of our own format: raising it means a new Format.
const pebbleFormat = pebble.FormatValueSeparation

// Options say how to open a Store. The zero value opens an existing one for
// reading and writing.
type Options struct {
	Create   *Header // make the store with this header where there is none; nil: it must exist
	ReadOnly bool    // refuse writes; Create is then ignored

	// Accept, if not nil, is asked of a store that is there, before anything in it changes:
	// with an error it is not opened.
	Accept func(Header, Counters) error

	CacheBytes int64        // for packed blocks, up to three quarters, and for Pebble; 0: 512 MiB
	FS         vfs.FS       // nil: the file system of the machine, files 0600, folders 0700
	Logger     *slog.Logger // nil: none
}

const (
	DefaultCacheBytes = 512 << 20
	memTableBytes     = 16 << 20 // what is replayed at open after a crash; Pebble takes one or two off the cache
	indexBlockBytes   = 1 << 20  // so that the index of a file is one block
	bloomBitsPerKey   = 10       // about 1 % of look-ups of absent keys read a block
)

// Store is an open index directory.
type Store struct {
	reader
	db       *pebble.DB
	dir      string
	fs       vfs.FS
	options  *pebble.Options
	meta     Meta // as of Open
	readOnly bool

	checkpointFS *checkpointFS
	watch        *failStop // nil if nothing is written
	lock         *onceLock
	dirLock      *pebble.Lock  // our reference to lock, beside Pebble's
	checkpoints  chan struct{} // has one while one is made

	cache     *blockCache
	unreserve func() // gives back to Pebble's cache what cache took of it

	applying    sync.Mutex
	last        atomic.Pointer[Commit] // the newest commit that was applied
	lastMetrics atomic.Pointer[pebble.Metrics]

	failed atomic.Pointer[error] // the first commit that could not be made durable
}

// Open opens the store in dir, or makes it. Errors: fs.ErrNotExist, ErrNotIndex,
// ErrVersion, ErrLocked, ErrCorrupt, and those of the file system.
func Open(dir string, opts Options) (*Store, error) {
	opts.FS = fileSystem(opts.FS)
	if opts.ReadOnly {
		opts.Create = nil
	}
	s, err := open(dir, opts)
	if err != nil {
		return nil, fmt.Errorf("open index %s: %w", dir, explainOpenFiles(err))
	}
	return s, nil
}

func open(dir string, opts Options) (*Store, error) {
	if err := prepareDir(dir, opts); err != nil {
		return nil, err
	}
	dir, err := onlyName(dir, opts.FS)
	if err != nil {
		return nil, err
	}
	held := &onceLock{FS: opts.FS}
	lock, err := lockDir(dir, held)
	if err != nil {
		return nil, err
	}
	s := &Store{dir: dir, fs: opts.FS, readOnly: opts.ReadOnly, checkpoints: make(chan struct{}, 1), lock: held, dirLock: lock}
	if err := checkFiles(dir, opts.FS); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	cache := pebble.NewCache(cacheBytes(opts))
	defer cache.Unref()
	if !s.readOnly {
		s.watch = newFailStop(opts.FS, dir, func(err error) { s.fail(err) })
		opts.FS = s.watch
	}
	s.checkpointFS = &checkpointFS{FS: opts.FS} // a pointer: Pebble compares file systems
	opts.FS = s.checkpointFS
	s.options = pebbleOptions(opts, cache, lock)
	defer s.options.FileCache.Unref() // Pebble holds a reference of its own
	scheduler := newLateScheduler()
	s.options.Experimental.CompactionScheduler = scheduler
	if s.watch != nil {
		s.options.EventListener = s.watch.eventListener(s.options.Logger)
		scheduler.paused, scheduler.ending = s.watch.paused, s.watch.ending
	}
	if err = s.openGuarded(); err != nil {
		scheduler.end()
		return nil, errors.Join(err, lock.Close())
	}
	scheduler.begin()
	if err = s.load(opts); err != nil {
		if s.unreserve != nil {
			s.unreserve()
		}
		return nil, errors.Join(err, s.closeDB())
	}
	return s, nil
}

// load reads what there is, or makes it, and clears away what was cut short.
func (s *Store) load(opts Options) error {
	s.reader.from = s.db
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
	if err == nil && !s.readOnly {
		err = errors.Join(s.raiseFormat(), sweepIncoming(s.dir, s.fs))
	}
	if err == nil {
		err = s.loadPacked(opts)
	}
	return err
}

func cacheBytes(opts Options) int64 {
	if opts.CacheBytes > 0 {
		return opts.CacheBytes
	}
	return DefaultCacheBytes
}

func pebbleOptions(opts Options, cache *pebble.Cache, lock *pebble.Lock) *pebble.Options {
	o := &pebble.Options{
		Cache:              cache,
		Cleaner:            cleaner{},
		Comparer:           pebble.DefaultComparer,
		EventListener:      &pebble.EventListener{DataCorruption: corruptionIsReturned},
		FileCache:          newFileCache(),
		FormatMajorVersion: pebbleFormat,
		FS:                 opts.FS,
		Lock:               lock,
		Logger:             pebbleLogger{opts.Logger},
		MemTableSize:       memTableBytes,
		Merger:             postingMerger,
		ReadOnly:           opts.ReadOnly,
	}
	for i := range o.Levels {
		o.Levels[i].IndexBlockSize = indexBlockBytes
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(bloomBitsPerKey)
	}
	o.Levels[len(o.Levels)-1].FilterPolicy = pebble.NoFilterPolicy // a Get does not ask those of the lowest level
	o.EnsureDefaults()
	return o
}

// prepareDir makes dir if it may, and refuses one that holds anything but an
// index, before a single byte in it is changed.
func prepareDir(dir string, opts Options) error {
	info, err := opts.FS.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) && opts.Create != nil {
		return makeDir(dir, opts.FS)
	}
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%w: it is a file", ErrNotIndex)
	}
	if err := checkPebbleFormat(dir, opts.FS); err != nil {
		return err
	}
	desc, err := pebble.Peek(dir, opts.FS)
	if err != nil {
		return classify(err)
	}
	if !desc.Exists {
		return checkUnfinished(dir, opts)
	}
	if desc.OptionsFilename == "" {
		return nil
	}
	return checkOptions(dir, desc.OptionsFilename, opts.FS)
}

// makeDir makes dir and its missing parents, durably: a directory is there after a
// crash once the one above it is synced.
func makeDir(dir string, fsys vfs.FS) error {
	var parents []string
	for at := dir; fsys.PathDir(at) != at; {
		at = fsys.PathDir(at)
		parents = append(parents, at)
		if _, err := fsys.Stat(at); err == nil {
			break
		}
	}
	if err := fsys.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, parent := range parents {
		d, err := fsys.OpenDir(parent)
		if err != nil {
			return err
		}
		if err := errors.Join(d.Sync(), d.Close()); err != nil {
			return err
		}
	}
	return nil
}

// onlyName gives every name of a directory of the machine as the same one. Within a
// process Pebble's lock goes by the name, and the system's lock does not hold.
func onlyName(dir string, fsys vfs.FS) (string, error) {
	if fsys != ofMachine {
		return dir, nil
	}
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(absolute)
}

// checkPebbleFormat reads the marker that Pebble keeps of its own format number.
// Peek fails on one that it does not know, with an error that has no name.
func checkPebbleFormat(dir string, fsys vfs.FS) error {
	marker, err := atomicfs.ReadMarker(fsys, dir, "format-version")
	if err != nil || marker == "" {
		return err
	}
	if version, err := strconv.ParseUint(marker, 10, 64); err == nil && version > uint64(pebbleFormat) {
		return fmt.Errorf("%w: Pebble format %d, and this version reads up to %d", ErrVersion, version, pebbleFormat)
	}
	return nil
}

// checkUnfinished allows an empty directory, and one in which Pebble had just
// begun to make a database when the machine stopped.
func checkUnfinished(dir string, opts Options) error {
	names, err := opts.FS.List(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if name != "LOCK" && !strings.HasPrefix(name, "MANIFEST-") && !strings.HasPrefix(name, "OPTIONS-") &&
			!strings.HasPrefix(name, "marker.") && !strings.HasPrefix(name, "temporary.") {
			if digest, err := readDigest(dir, opts.FS); err != nil || digest != nil {
				return errors.Join(err, damaged(dir, "lacks its "+markerPrefix+"* file"))
			}
			return fmt.Errorf("%w: it holds %q and no database", ErrNotIndex, name)
		}
	}
	if opts.Create == nil {
		return fmt.Errorf("no index there: %w", fs.ErrNotExist)
	}
	return nil
}

// checkOptions tells a Pebble database of another kind by the merger that its OPTIONS
// file names: opening it would already write to it. Of the rest, Pebble compares a few
// names with its own, and its errors there have none.
func checkOptions(dir, optionsFile string, fsys vfs.FS) error {
	f, err := fsys.Open(optionsFile)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return checkOptionsText(dir, string(text), optionsFile)
}

func checkOptionsText(dir, text, optionsFile string) error {
	for line := range strings.Lines(text) {
		name, found := strings.CutPrefix(strings.TrimSpace(line), "merger=")
		if found && !strings.HasPrefix(name, "neardup.") {
			return fmt.Errorf("%w: a Pebble database of another kind, with merger %q", ErrNotIndex, name)
		}
		if found && name != postingMerger.Name {
			return fmt.Errorf("%w: its postings merge by %q, and this version knows %q", ErrVersion, name, postingMerger.Name)
		}
	}
	own := &pebble.Options{Comparer: pebble.DefaultComparer, Merger: postingMerger}
	if err := own.CheckCompatibility(dir, text); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrCorrupt, optionsFile, firstLine{err})
	}
	return nil
}

// classify gives Pebble's errors the name that a caller of ours matches.
func classify(err error) error {
	switch {
	case err == nil:
		return nil
	case pebble.IsCorruptionError(err):
		if info := pebble.ExtractDataCorruptionInfo(err); info != nil {
			return fmt.Errorf("%w: %s: %w", ErrCorrupt, info.Path, firstLine{err})
		}
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	case errors.Is(err, pebble.ErrReadOnly):
		return fmt.Errorf("%w: %w", ErrReadOnly, err)
	}
	return explainOpenFiles(err)
}

// firstLine is an error of Pebble's without the carrier of details in its second line.
type firstLine struct{ error }

func (e firstLine) Unwrap() error { return e.error }

func (e firstLine) Error() string {
	line, _, _ := strings.Cut(e.error.Error(), "\n")
	return line
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

// loadPacked opens the packed tables, if there are any.
func (s *Store) loadPacked(opts Options) error {
	limit := packedCacheBytes(s.meta.Packed, cacheBytes(opts))
	s.cache, s.unreserve = newBlockCache(limit), s.options.Cache.Reserve(int(limit))
	for i, info := range s.meta.Packed {
		p, err := openPackedTable(i, info.Entries, info.Blocks, s.cache, s.db)
		if err != nil {
			return err
		}
		s.packed = append(s.packed, p)
	}
	return nil
}

// Meta returns what meta said when the store was opened, or what it was made with.
func (s *Store) Meta() Meta { return s.meta }

// Format returns the number of the format that the index is in.
func (s *Store) Format() int { return int(s.meta.Format) }

// Header returns what the store was made with.
func (s *Store) Header() Header { return *s.meta.Header }

// Counters returns the counters as they were when the store was opened.
func (s *Store) Counters() Counters { return *s.meta.Counters }

// SetAnalyzer records the analyzer of an index that has none yet, durably.
func (s *Store) SetAnalyzer(name string) error {
	if err := s.writable(); err != nil {
		return err
	}
	batch := s.db.NewBatch()
	if err := batch.Set(metaKey("analyzer"), []byte(name), nil); err != nil {
		return errors.Join(err, batch.Close())
	}
	s.meta.Header.Analyzer = name
	return s.commit(batch)
}

// DiskBytes returns the bytes that the store takes on disk, its log included.
func (s *Store) DiskBytes() uint64 { return s.metrics().DiskSpaceUsage() }

// CachedBytes returns what Pebble's cache holds.
func (s *Store) CachedBytes() int64 { return s.metrics().BlockCache.Size }

// metrics are Pebble's, as they were last when the store has failed.
func (s *Store) metrics() *pebble.Metrics {
	s.guard(func() error {
		s.lastMetrics.Store(s.db.Metrics())
		return nil
	})
	if m := s.lastMetrics.Load(); m != nil {
		return m
	}
	return &pebble.Metrics{}
}

// Close waits for background work and makes everything durable that was applied; where
// the store has failed it does neither, and says so. No View may be open.
func (s *Store) Close() error {
	err := s.Sync()
	if s.unreserve != nil {
		s.unreserve()
	}
	return errors.Join(err, s.closeDB())
}
