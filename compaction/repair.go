package compaction

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/store"
)

// RepairOptions of Repair. The zero value is ready to use.
type RepairOptions struct {
	// Dest is where the repaired index is made; it must not exist, or be empty. "": in the
	// place of the damaged one, which is kept beside it, see RepairReport.Kept.
	Dest string

	// Plan is for an index whose own cannot be read any more. nil: then Repair fails.
	Plan *index.Plan

	MemoryBytes int64          // as Options has it
	FilterBytes int64          // as Options has it
	CacheBytes  int64          // as Options has it
	Progress    func(Progress) // as Options has it

	// Fault, if set, is called with everything that is found to be wrong.
	Fault func(store.Fault)

	FS     vfs.FS       // nil: the machine's file system
	Logger *slog.Logger // nil: none
}

// RepairReport is what Repair saved, and what it could not save.
type RepairReport struct {
	Index     string `json:"index"`     // the repaired one
	Kept      string `json:"kept"`      // where the damaged one is now; as it was
	Documents uint64 `json:"documents"` // in the repaired index
	Bare      uint64 `json:"bare"`      // of those, the ones that have nothing but a fingerprint
	Faults    uint64 `json:"faults"`    // places that were damaged or wrong

	// The counters of the damaged index, if they could be read.
	DocumentsBefore uint64 `json:"documentsBefore,omitempty"`
	BareBefore      uint64 `json:"bareBefore,omitempty"`

	// RecordsLost are documents that an entry of a key names and that have no record any
	// more. Where a posting has them they stay, without key, scope, Shingle and length; with a
	// scope their fingerprint is of no use then.
	RecordsLost uint64 `json:"recordsLost"`
	// Replaced are documents with the key of a later one, which came back with a deletion
	// that was lost.
	Replaced uint64 `json:"replaced"`
	// Dropped are IDs in postings that cannot be: never given out, or in two postings.
	Dropped uint64 `json:"dropped"`

	Ranges  []string `json:"ranges,omitempty"` // what could not be read, up to 1,000 of them
	Seconds float64  `json:"seconds"`
}

// ErrNotRepaired: what was made is no better; it was removed, and the index is as it was.
var ErrNotRepaired = errors.New("the index cannot be repaired")

const maxRanges = 1000

// Repair makes a new index of what can be read of the one in dir, which must not be open:
// of the records of its documents, and, for those that have none, of its postings. Tables,
// postings, filters, keys and counters are made anew, and checked with Verify. Documents
// keep their IDs and their times of arrival. An index that Open refuses is repaired as
// well: a byte of a log or MANIFEST that is known to be wrong is put right, and files that
// make no whole any more are read one by one.
//
// The damaged index is never changed: when the new one is whole and durable, the two
// change places, in two renamings; a crash between them leaves both, under the names that
// RepairReport.Index and Kept have with ".repaired" and ".damaged".
//
// It takes time, memory and disk as Load does for as many documents, and, if a table is
// damaged, disk for the index once more.
//
// Errors: ErrNotRepaired, index.ErrLocked, index.ErrNotIndex, fs.ErrNotExist, fs.ErrExist
// for Dest, ctx's and those of the file system.
func Repair(ctx context.Context, dir string, opts RepairOptions) (report RepairReport, err error) {
	start := time.Now()
	defer func() { report.Seconds = time.Since(start).Seconds() }()
	r := repair{dir: dir, opts: &opts, report: &report, dest: opts.Dest}
	if opts.FS == nil {
		opts.FS = vfs.Default
	}
	if r.dest == "" {
		r.dest = dir + ".repaired"
	}
	if err := r.run(ctx); err != nil {
		return report, fmt.Errorf("repair index %s: %w", dir, err)
	}
	return report, nil
}

// repair is a Repair under way.
type repair struct {
	dir, dest string
	opts      *RepairOptions
	report    *RepairReport
	salvage   *store.Salvage
}

func (r *repair) fault(f store.Fault) {
	r.report.Faults++
	if f.Unreadable && len(r.report.Ranges) < maxRanges {
		r.report.Ranges = append(r.report.Ranges, fmt.Sprintf("%s %q: %v", f.Keyspace, f.Key, f.Err))
	}
	if r.opts.Fault != nil {
		r.opts.Fault(f)
	}
}

func (r *repair) run(ctx context.Context) (err error) {
	fsys := r.opts.FS
	if err := r.checkPlaces(); err != nil {
		return err
	}
	made := false
	defer func() {
		if !made {
			err = errors.Join(err, fsys.RemoveAll(r.dest))
		}
	}()
	storeOptions := store.Options{CacheBytes: r.opts.CacheBytes, FS: fsys, Logger: r.opts.Logger}
	work := r.dest + ".salvage"
	if err := fsys.RemoveAll(work); err != nil {
		return err
	}
	if r.salvage, err = store.OpenSalvage(ctx, r.dir, work, storeOptions, r.fault); err != nil {
		return err
	}
	closed := false
	defer func() {
		if !closed {
			err = errors.Join(err, r.salvage.Close())
		}
	}()
	if err := r.rebuild(ctx); err != nil {
		return err
	}
	if err := r.verify(ctx); err != nil {
		return err
	}
	closed = true
	if err := r.salvage.Close(); err != nil {
		return err
	}
	made = true
	return r.swap()
}

// checkPlaces sees to it that there is something to repair, and room for the result.
func (r *repair) checkPlaces() error {
	fsys := r.opts.FS
	info, err := fsys.Stat(r.dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%w: it is a file", index.ErrNotIndex)
	}
	names, err := fsys.List(r.dest)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case len(names) == 0:
		return nil
	case r.opts.Dest == "": // of a Repair that was cut short
		return fsys.RemoveAll(r.dest)
	}
	return fmt.Errorf("%s: %w: it holds %q, and must be empty", r.dest, fs.ErrExist, names[0])
}

// verify opens what was made.
func (r *repair) verify(ctx context.Context) error {
	x, err := index.Open(r.dest, &index.Options{FS: r.opts.FS, ReadOnly: true, CacheBytes: r.opts.CacheBytes, FilterBytes: r.opts.FilterBytes})
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotRepaired, err)
	}
	stats := x.Stats()
	r.report.Documents, r.report.Bare = stats.Documents, stats.Bare
	for p := range x.Verify(ctx) {
		err := fmt.Errorf("%w: %v", ErrNotRepaired, p)
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return errors.Join(err, x.Close())
	}
	return x.Close()
}

// swap puts the repaired index in the place of the damaged one, unless it has one.
func (r *repair) swap() error {
	r.report.Index, r.report.Kept = r.dest, r.dir
	if r.opts.Dest != "" {
		return nil
	}
	fsys, kept := r.opts.FS, r.dir+".damaged"
	for n := 2; ; n++ {
		if _, err := fsys.Stat(kept); errors.Is(err, fs.ErrNotExist) {
			break
		} else if err != nil {
			return err
		}
		kept = fmt.Sprintf("%s.damaged-%d", r.dir, n)
	}
	if err := fsys.Rename(r.dir, kept); err != nil {
		return err
	}
	r.report.Kept = kept
	if err := fsys.Rename(r.dest, r.dir); err != nil {
		return fmt.Errorf("the repaired index is %s, the damaged one %s: %w", r.dest, kept, err)
	}
	r.report.Index = r.dir
	parent, err := fsys.OpenDir(fsys.PathDir(r.dir))
	if err != nil {
		return err
	}
	return errors.Join(parent.Sync(), parent.Close())
}
