package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"
	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Salvage is what can be read of a store that may be damaged, also one that Open refuses.
// Nothing of the store is changed.
type Salvage struct {
	db     *pebble.DB
	it     *pebble.Iterator
	lock   io.Closer
	fs     vfs.FS
	work   string
	report func(Corruption)
	unref  []func() // caches
}

// OpenSalvage opens the store in dir, which no one else may have open. work is a folder
// for what that takes, which must not exist: links of the tables and copies of the rest,
// with every byte of a log or MANIFEST that is known to be wrong put right, and where a
// table is damaged, or Pebble cannot open them, everything in them that can be read once
// more. report gets every fault. Errors: ErrLocked, ctx's, those of the file system.
func OpenSalvage(ctx context.Context, dir, work string, opts Options, report func(Corruption)) (s *Salvage, err error) {
	opts.FS = fileSystem(opts.FS)
	s = &Salvage{fs: opts.FS, work: work, report: report}
	lock, err := lockDir(dir, &onceLock{FS: opts.FS})
	if err != nil {
		return nil, fmt.Errorf("open index %s: %w", dir, err)
	}
	s.lock = lock
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("salvage index %s: %w", dir, err), s.Close())
		}
	}()
	whole := opts.FS.PathJoin(work, "whole")
	if err := s.copyAll(dir, whole); err != nil {
		return nil, err
	}
	opts.ReadOnly, opts.Create = true, nil
	db, damaged, err := s.openMended(ctx, whole, opts)
	if err == nil && damaged {
		s.db, err = s.sift(ctx, db, whole, opts)
	} else {
		s.db = db
	}
	if err == nil {
		s.it, err = s.db.NewIter(nil)
	}
	return s, err
}

// openMended opens the copy, and puts right what can be in its tables. db is nil if Pebble
// cannot open it; damaged tells whether something of it cannot be read.
func (s *Salvage) openMended(ctx context.Context, whole string, opts Options) (db *pebble.DB, damaged bool, err error) {
	for try := 0; ; try++ {
		o := s.options(opts)
		db, err := s.open(whole, o)
		if err != nil {
			s.report(Corruption{true, "file", []byte("MANIFEST"), fmt.Errorf("the files make no whole, and are read one by one: %w", corrupt(err))})
			return nil, true, ctx.Err()
		}
		var names []string
		var faults []Corruption
		err = checkTables(ctx, db, o, whole, func(f Corruption) {
			names, faults = append(names, string(f.Key)), append(faults, f)
		}, nil)
		mended := false
		for _, name := range names {
			if err == nil && try == 0 {
				var is bool
				is, err = s.mend(ctx, s.fs.PathJoin(whole, name), name, o)
				mended = mended || is
			}
		}
		if err == nil && !mended {
			for _, f := range faults {
				s.report(f)
			}
			return db, len(faults) > 0, nil
		}
		if err = errors.Join(err, db.Close()); err != nil {
			return nil, false, err
		}
	}
}

// View returns a lenient view of what was saved.
func (s *Salvage) View(ctx context.Context, report func(Corruption), tell func()) *View {
	return newView(s.it, nil).Lenient(ctx, report, tell)
}

// Close lets go of the store and removes the folder for work.
func (s *Salvage) Close() error {
	var errs []error
	if s.it != nil {
		errs = append(errs, s.it.Close())
	}
	if s.db != nil {
		errs = append(errs, s.db.Close())
	}
	for _, unref := range s.unref {
		unref()
	}
	return errors.Join(append(errs, s.lock.Close(), s.fs.RemoveAll(s.work))...)
}

func (s *Salvage) options(opts Options) *pebble.Options {
	cache := pebble.NewCache(cacheBytes(opts))
	s.unref = append(s.unref, cache.Unref)
	o := pebbleOptions(opts, cache, nil)
	s.unref = append(s.unref, o.FileCache.Unref)
	return o
}

func (s *Salvage) open(dir string, o *pebble.Options) (db *pebble.DB, err error) {
	defer func() {
		if r := recover(); r != nil { // Pebble does where a MANIFEST makes no sense
			err = fmt.Errorf("%w: %v", ErrCorrupt, r)
		}
	}()
	return pebble.Open(dir, o)
}

// copyAll links the tables and copies the other files, without what is known to be wrong
// in them.
func (s *Salvage) copyAll(from, to string) error {
	if err := s.fs.MkdirAll(to, 0o755); err != nil {
		return err
	}
	names, err := s.fs.List(from)
	if err != nil {
		return err
	}
	was := map[string]*fileDigest{}
	digests, closed, err := currentDigest(from, s.fs)
	if err != nil {
		return err
	}
	for i := range digests {
		if closed {
			was[digests[i].name] = &digests[i]
		}
	}
	for _, name := range names {
		source, target := s.fs.PathJoin(from, name), s.fs.PathJoin(to, name)
		switch {
		case name == "LOCK" || name == incomingDir || strings.HasPrefix(name, digestName) || strings.HasPrefix(name, "OPTIONS-"): // Pebble does without
		case strings.HasSuffix(name, ".sst"):
			err = vfs.LinkOrCopy(s.fs, source, target)
		case strings.HasSuffix(name, ".log") || strings.HasPrefix(name, "MANIFEST-"):
			err = s.copyLog(source, target, name, was[name])
		default:
			err = vfs.Copy(s.fs, source, target)
		}
		if err != nil {
			return err
		}
		delete(was, name)
	}
	for name := range was {
		s.report(Corruption{true, "file", []byte(name), damaged(s.fs.PathJoin(from, name), "is missing")})
	}
	if len(was) > 0 {
		return nil
	}
	if err = checkLogs(to, s.fs); errors.Is(err, ErrCorrupt) {
		s.report(Corruption{true, "file", []byte("*.log"), err})
		return nil
	}
	return err
}

// copyLog copies a log or MANIFEST, up to the first damage that cannot be put right. was is what
// the digest says of it, if it does.
func (s *Salvage) copyLog(source, target, name string, was *fileDigest) error {
	data, err := readFile(source, s.fs)
	if err != nil {
		return err
	}
	l := logData{data, fileNumber(name, "")}
	mended, end := l.mend()
	if mended > 0 {
		s.report(Corruption{false, "file", []byte(name), fmt.Errorf("%w: one wrong byte in each of %d chunks: put right", ErrCorrupt, mended)})
	}
	if cut := l.cut(end, was); cut {
		s.report(Corruption{true, "file", []byte(name), fmt.Errorf("%w: it cannot be read at byte %d; nothing from there on is saved", ErrCorrupt, end)})
		l.data = l.data[:end]
	}
	out, err := s.fs.Create(target, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = out.Write(l.data)
	return errors.Join(err, out.Close())
}

// cut reports whether something was written behind where reading ends.
func (l logData) cut(end int, was *fileDigest) bool {
	switch {
	case was != nil:
		return xxhash.Sum64(l.data) != was.sum
	case l.number == 0:
		return recordBegins(l.data, int64(end)+1)
	}
	return !l.isWhole()
}

// siftedTable is a file of sorted entries, and how much of it counts.
type siftedTable struct {
	name        string
	first, last []byte // nil: all
	age         uint64 // larger is newer
}

// sift puts every entry that can be read of any file into a store of Pebble's own, the
// oldest first, so that a damaged block takes along nothing that lies over or under it.
// db, nil if it cannot be opened, tells which files count, and from when they are;
// otherwise the numbers of the files do.
func (s *Salvage) sift(ctx context.Context, db *pebble.DB, whole string, opts Options) (sifted *pebble.DB, err error) {
	files, err := s.tables(db, whole)
	if err != nil {
		return nil, err
	}
	if db != nil {
		if err := db.Close(); err != nil {
			return nil, err
		}
	}
	opts.ReadOnly = false
	o := s.options(opts)
	o.DisableWAL = true
	if sifted, err = pebble.Open(s.fs.PathJoin(s.work, "sifted"), o); err != nil {
		return nil, err
	}
	for _, file := range files {
		if err := s.siftTable(ctx, sifted, whole, file, o); err != nil {
			return nil, errors.Join(err, sifted.Close())
		}
	}
	names, err := s.fs.List(whole)
	if err == nil {
		slices.Sort(names)
		for _, name := range names {
			if strings.HasSuffix(name, ".log") && err == nil {
				err = s.siftLog(sifted, s.fs.PathJoin(whole, name), name)
			}
		}
	}
	if err != nil {
		return nil, errors.Join(err, sifted.Close())
	}
	return sifted, nil
}

// tables lists the files to sift, the oldest first.
func (s *Salvage) tables(db *pebble.DB, whole string) (files []siftedTable, err error) {
	if db == nil {
		names, err := s.fs.List(whole)
		for _, name := range names {
			if digits, is := strings.CutSuffix(name, ".sst"); is {
				number, _ := strconv.ParseUint(digits, 10, 64)
				files = append(files, siftedTable{name: name, age: number})
			}
		}
		slices.SortFunc(files, func(a, b siftedTable) int { return compareAges(a.age, b.age) })
		return files, err
	}
	levels, err := db.SSTables()
	if err != nil {
		return nil, err
	}
	for _, level := range slices.Backward(levels) {
		of := []siftedTable{}
		for _, t := range level {
			of = append(of, siftedTable{
				name: fmt.Sprintf("%s.sst", t.BackingSSTNum), age: uint64(t.LargestSeqNum),
				first: bytes.Clone(t.Smallest.UserKey), last: bytes.Clone(t.Largest.UserKey),
			})
		}
		slices.SortStableFunc(of, func(a, b siftedTable) int { return compareAges(a.age, b.age) })
		files = append(files, of...)
	}
	return files, nil
}

func compareAges(a, b uint64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
