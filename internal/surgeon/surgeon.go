// Package surgeon reads the files of a Pebble database past Pebble: it tells damage that Pebble takes for the
// end of a file, and saves what can be read of a database that Pebble refuses.
//
// It guarantees that a database is never changed by it, and that one that is whole is never refused: Check
// (digest.go) finds any damage to the log and the MANIFEST of a closed database, and after a crash what a write that was cut off
// cannot explain. What Open saves is what follows Pebble's checksums, with every byte put right that is
// alone wrong in its chunk or block; what it cannot save it reports.
//
// The layout of Pebble's files is not something that Pebble promises; see failfs.TestPebbleVersion.
package surgeon

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"
	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/internal/fault"
)

// Damage is something wrong with a file.
type Damage struct {
	Unreadable bool // something of it cannot be had; not set: it was put right
	File       string
	Err        error
}

// sizeMismatch is how Pebble's Open says that a table is not as long as its MANIFEST says.
const sizeMismatch = "object size mismatch"

var tableNumber = regexp.MustCompile(`\b\d{6,}\b`)

// OpenError names what Pebble's Open says of a file that is missing or too short, as Damaged. There is a
// database, so no caller may take that for fs.ErrNotExist.
func OpenError(dir string, fsys vfs.FS, err error) error {
	if errors.Is(err, pebble.ErrDBNotPristine) {
		return Damaged(dir, "lacks its marker.format-version file")
	}
	missing := errors.Is(err, fs.ErrNotExist)
	if err == nil || !missing && !strings.Contains(err.Error(), sizeMismatch) {
		return err
	}
	path := fsys.PathJoin(dir, tableNumber.FindString(err.Error())+".sst")
	var of *fs.PathError
	switch {
	case errors.As(err, &of):
		return Damaged(of.Path, "is missing")
	case missing:
		return Damaged(path, "is missing")
	}
	return Damaged(path, "is not as long as it was written")
}

// CheckTables reads the sorted tables of a database, every block of them from the
// disk, and compares their checksums. report gets each file that is damaged, tell, if it
// is not nil, the bytes of each one read. A file that Pebble has replaced and removed
// meanwhile is passed over.
func CheckTables(ctx context.Context, db *pebble.DB, o *pebble.Options, dir string, report func(Damage), tell func(bytes uint64)) error {
	levels, err := db.SSTables()
	if err != nil {
		return err
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
		err := checkTable(ctx, o.FS.PathJoin(dir, name), o)
		if errors.Is(err, fs.ErrNotExist) {
			now, listErr := db.SSTables()
			if !slices.ContainsFunc(slices.Concat(now...), func(t pebble.SSTableInfo) bool { return t.BackingSSTNum == table.BackingSSTNum }) {
				err = listErr
			}
		}
		if fault.Denied(err) {
			return err
		}
		if err != nil {
			report(Damage{true, name, err})
		}
		if tell != nil {
			tell(table.Size)
		}
	}
	return nil
}

func checkTable(ctx context.Context, path string, o *pebble.Options) error {
	r, err := openTable(ctx, path, o)
	if err != nil {
		return err
	}
	return errors.Join(r.ValidateBlockChecksums(), r.Close())
}

// openTable opens a sorted table of Pebble's by itself.
func openTable(ctx context.Context, path string, o *pebble.Options) (*sstable.Reader, error) {
	f, err := o.FS.Open(path)
	if err != nil {
		return nil, err
	}
	readable, err := sstable.NewSimpleReadable(f)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	r, err := sstable.NewReader(ctx, readable, o.MakeReaderOptions())
	if err != nil {
		return nil, errors.Join(err, readable.Close())
	}
	return r, nil
}

// Patient is a database to save. Its files are only read.
type Patient struct {
	Dir     string
	Work    string // a folder for what that takes, which must not exist, on the same file system
	FS      vfs.FS
	Options func() *pebble.Options // anew for each opening; DB.Close does not unref their caches
	Skip    func(name string) bool // files that are of no use
	Report  func(Damage)

	// Next returns where reading goes on behind a key from which on nothing can be read; nil if nowhere.
	Next func(at []byte, readable func(key []byte) bool) []byte

	// Merged reports whether what is set for a key may as well be merged with what is there.
	Merged func(key []byte) bool
}

// Open opens what can be saved: links of the tables and copies of the rest,
// with every byte of a log or MANIFEST that is known to be wrong put right, and where a
// table is damaged, or Pebble cannot open them, everything in them that can be read once
// more. The caller closes the database, and removes Work.
func (p *Patient) Open(ctx context.Context) (*pebble.DB, error) {
	whole := p.FS.PathJoin(p.Work, "whole")
	older, err := p.copyAll(whole)
	if err != nil {
		return nil, err
	}
	if older {
		return p.copyReadable(ctx, nil, whole)
	}
	for try := 0; ; try++ {
		o := p.Options()
		o.ReadOnly = true
		db, err := open(whole, o)
		if fault.Denied(err) {
			return nil, err
		}
		if err != nil {
			p.Report(Damage{true, "MANIFEST", fmt.Errorf("MANIFEST unusable; reading tables one by one: %w", err)})
			return p.copyReadable(ctx, nil, whole)
		}
		var damaged []Damage
		fixed := 0
		err = CheckTables(ctx, db, o, whole, func(d Damage) { damaged = append(damaged, d) }, nil)
		for _, d := range damaged {
			if err == nil && try == 0 {
				var n int
				n, err = fixTable(ctx, p.FS.PathJoin(whole, d.File), o, p.FS)
				p.fixed(d.File, n, "blocks")
				fixed += n
			}
		}
		if err == nil && fixed == 0 {
			for _, d := range damaged {
				p.Report(d)
			}
			if len(damaged) > 0 {
				return p.copyReadable(ctx, db, whole)
			}
			return db, nil
		}
		if err = errors.Join(err, db.Close()); err != nil {
			return nil, err
		}
	}
}

func open(dir string, o *pebble.Options) (db *pebble.DB, err error) {
	defer func() {
		if r := recover(); r != nil { // Pebble does where a MANIFEST makes no sense
			err = fmt.Errorf("%w: %v", fault.ErrCorrupt, r)
		}
	}()
	return pebble.Open(dir, o)
}

func (p *Patient) fixed(name string, n int, of string) {
	if n > 0 {
		p.Report(Damage{false, name, fmt.Errorf("%w: one wrong byte in each of %d %s: put right", fault.ErrCorrupt, n, of)})
	}
}

// copyAll links the tables and copies the other files, without what is known to be wrong
// in them. older: the MANIFEST is of before some of the tables.
func (p *Patient) copyAll(to string) (older bool, err error) {
	digests, err := currentDigest(p.Dir, p.FS)
	if err != nil {
		return false, err
	}
	was := map[string]*fileDigest{}
	for i, d := range digests {
		was[d.name] = &digests[i]
	}
	if err := CopyFiles(p.Dir, to, p.FS, func(name, target string) (done bool, err error) {
		if done = strings.HasSuffix(name, ".log") || strings.HasPrefix(name, "MANIFEST-"); done {
			err = p.copyLog(target, name, was[name])
		}
		delete(was, name)
		return done || p.Skip(name) || strings.HasPrefix(name, "OPTIONS-"), err // Pebble does without
	}); err != nil {
		return false, err
	}
	for name := range was {
		p.Report(Damage{true, name, Damaged(p.FS.PathJoin(p.Dir, name), "is missing")})
	}
	if len(was) > 0 {
		return false, nil
	}
	err = checkLogs(to, p.FS)
	if !errors.Is(err, fault.ErrCorrupt) {
		return false, err
	}
	p.Report(Damage{true, "*.log", err})
	return p.isOlder(to)
}

// isOlder reports whether the MANIFEST is of before some of the tables, as an older copy is that was put in its place. That
// is known only where a log is missing: else what a crash has left of a table is in the logs.
func (p *Patient) isOlder(dir string) (bool, error) {
	table, err := newerTable(dir, p.FS)
	if errors.Is(err, fault.ErrCorrupt) {
		return false, nil // Pebble tells what can be done with it
	}
	if table != "" {
		p.Report(Damage{true, "MANIFEST", fmt.Errorf("%w: it is older than %s; reading tables one by one", fault.ErrCorrupt, table)})
	}
	return table != "", err
}

// copyLog copies a log or MANIFEST, up to the first damage that cannot be put right. was is what
// the digest says of it, if it does.
func (p *Patient) copyLog(target, name string, was *fileDigest) error {
	l, err := readLog(p.Dir, name, p.FS)
	if err != nil {
		return err
	}
	fixed, end := l.fixBitFlips()
	p.fixed(name, fixed, "chunks")
	var cut bool // something was written behind where reading ends
	switch {
	case was != nil:
		cut = xxhash.Sum64(l.data) != was.sum
	case l.number == 0:
		cut = l.goesOn(end)
	default:
		cut = !isZero(l.data[end:]) && !l.isTrailer(end)
	}
	if cut {
		p.Report(Damage{true, name, fmt.Errorf("%w: it cannot be read at byte %d; nothing from there on is saved", fault.ErrCorrupt, end)})
		l.data = l.data[:end]
	}
	return writeFile(target, l.data, false, p.FS)
}

// readableTable is a file of sorted entries, and how much of it counts.
type readableTable struct {
	name        string
	first, last []byte // nil: all
	age         uint64 // larger is newer
	numbered    bool   // the age is the file's number: a compaction gives what is old a larger one
}

// tables lists the files to copy, the oldest first. db, nil if it cannot be opened, tells which count;
// otherwise the numbers of the files do.
func (p *Patient) tables(db *pebble.DB, whole string) (tables []readableTable, err error) {
	byAge := func(a, b readableTable) int { return cmp.Compare(a.age, b.age) }
	if db == nil {
		names, err := p.FS.List(whole)
		for _, name := range names {
			if strings.HasSuffix(name, ".sst") {
				tables = append(tables, readableTable{name: name, age: fileNumber(name, ""), numbered: true})
			}
		}
		slices.SortFunc(tables, byAge)
		return tables, err
	}
	levels, err := db.SSTables()
	if err != nil {
		return nil, err
	}
	for _, level := range slices.Backward(levels) {
		of := []readableTable{}
		for _, t := range level {
			of = append(of, readableTable{fmt.Sprintf("%s.sst", t.BackingSSTNum), bytes.Clone(t.Smallest.UserKey), bytes.Clone(t.Largest.UserKey), uint64(t.LargestSeqNum), false})
		}
		slices.SortStableFunc(of, byAge)
		tables = append(tables, of...)
	}
	return tables, nil
}
