package compaction

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/RoaringBitmap/roaring/v2/roaring64"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/plan"
	"github.com/neardup/neardup/internal/surgeon"
	"github.com/neardup/neardup/internal/verify"
	"github.com/neardup/neardup/store"
)

// RepairOptions of Repair. The zero value is ready to use.
type RepairOptions struct {
	// Options are those of the work. Their Plan is for an index whose own cannot be read
	// any more; without one Repair fails then.
	Options

	// Dest is where the repaired index is made; it must not exist, or be empty. "": in the
	// place of the damaged one, which is kept beside it, see RepairReport.Kept.
	Dest string

	// Problem, if set, is called with everything that is found to be wrong.
	Problem func(verify.Problem)
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
// Errors: ErrNotRepaired, index.ErrLocked, index.ErrNotIndex, index.ErrVersion, fs.ErrNotExist,
// fs.ErrExist for Dest, ctx's and those of the file system.
func Repair(ctx context.Context, dir string, opts RepairOptions) (report RepairReport, err error) {
	start := time.Now()
	defer func() { report.Seconds = time.Since(start).Seconds() }()
	if opts.FS == nil {
		opts.FS = vfs.Default
	}
	r := repair{opts: &opts, report: &report}
	if err = r.name(dir); err == nil {
		err = r.run(ctx)
	}
	if err != nil {
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

// name gives both folders names to which an ending can be added. With a slash at its end, or a dot, it would be that of
// something within them; beside a link, what is repaired would not be where the index is, and on another disk perhaps.
func (r *repair) name(dir string) (err error) {
	if r.dir = r.opts.FS.PathJoin(dir); strings.Trim(r.opts.FS.PathBase(r.dir), ".") == "" {
		if r.dir, err = filepath.Abs(r.dir); err != nil {
			return err
		}
	}
	if r.opts.FS == vfs.Default {
		if info, err := os.Lstat(r.dir); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			if r.dir, err = filepath.EvalSymlinks(r.dir); err != nil {
				return err
			}
		}
	}
	if r.dest = r.dir + ".repaired"; r.opts.Dest != "" {
		r.dest = r.opts.FS.PathJoin(r.opts.Dest)
	}
	return nil
}

func (r *repair) fault(f store.Corruption) {
	r.report.Faults++
	p := verify.ProblemOf(f)
	if p.Kind == verify.Unreadable && len(r.report.Ranges) < maxRanges {
		r.report.Ranges = append(r.report.Ranges, p.String())
	}
	if r.opts.Problem != nil {
		r.opts.Problem(p)
	}
}

func (r *repair) run(ctx context.Context) error {
	if err := r.opts.check(); err != nil {
		return err
	}
	if err := r.checkPlaces(); err != nil {
		return err
	}
	if err := r.make(ctx); err != nil {
		return err
	}
	return r.swap()
}

// make makes the repaired index.
func (r *repair) make(ctx context.Context) (err error) {
	if r.salvage, err = store.OpenSalvage(ctx, r.dir, r.dest+".salvage", r.storeOptions(nil), r.fault); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.salvage.Close()) }()
	// Only now, with the lock, is what is there known to be of no Repair under way.
	if err := r.opts.FS.RemoveAll(r.dest); err != nil {
		return err
	}
	if err = r.rebuild(ctx); err == nil {
		err = r.verify(ctx)
	}
	if err != nil {
		err = errors.Join(err, r.opts.FS.RemoveAll(r.dest))
	}
	return err
}

func (r *repair) storeOptions(create *store.Header) store.Options {
	return store.Options{Create: create, CacheBytes: r.opts.CacheBytes, FS: r.opts.FS, Logger: r.opts.Logger}
}

// ofIndex matches the names of the files that hold an index.
var ofIndex = regexp.MustCompile(`^(MANIFEST-\d+|\d{6,}\.(sst|log))$`)

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
	names, err := fsys.List(r.dir)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(names, ofIndex.MatchString) {
		return fmt.Errorf("%w: it holds neither tables nor a log nor a MANIFEST", index.ErrNotIndex)
	}
	names, err = fsys.List(r.dest)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case len(names) == 0, r.opts.Dest == "": // it is of a Repair that was cut short
		return nil
	}
	return fmt.Errorf("%s: %w: it holds %q, and must be empty", r.dest, fs.ErrExist, names[0])
}

// rebuild makes a new index of what was salvaged, in one commit.
func (r *repair) rebuild(ctx context.Context) (err error) {
	saved := r.salvage.View(ctx, r.fault, nil)
	meta, err := saved.Meta()
	if err != nil {
		return err
	}
	plan, err := r.plan(meta)
	if err != nil {
		return err
	}
	header := store.Header{Plan: plan.String()}
	if meta.Header != nil {
		header.Analyzer = meta.Header.Analyzer
	}
	s, err := store.Open(r.dest, r.storeOptions(&header))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	b, err := newBuilder(ctx, s, plan, &r.opts.Options, &Report{Tables: make([]TableReport, len(plan.Tables))})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	d := rebuilding{repair: r, builder: b, saved: saved, recorded: roaring64.New(), bare: roaring64.New()}
	if c := meta.Counters; c != nil {
		d.counted, b.counters.NextID = true, c.NextID
		r.report.DocumentsBefore, r.report.BareBefore = c.Documents, c.Bare
	}
	for _, step := range []func() error{d.addRecords, d.addPostings, d.countLost, d.addClock, b.finish} {
		if err := step(); err != nil {
			return err
		}
	}
	r.report.Replaced = b.replaced.GetCardinality()
	return nil
}

// plan returns the plan of the damaged index, or the one that was given for it.
func (r *repair) plan(meta store.Meta) (*plan.Plan, error) {
	if meta.Header != nil {
		if p, err := plan.Parse(meta.Header.Plan); err == nil {
			return p, nil
		}
	}
	if r.opts.Plan == nil {
		return nil, fmt.Errorf("%w: its plan cannot be read; say with which it was made", ErrNotRepaired)
	}
	return plan.New(r.opts.Plan.MaxDistance, r.opts.Plan.Tables...)
}

// rebuilding adds what was salvaged to a new index.
type rebuilding struct {
	*repair
	*builder
	saved    *store.View
	recorded *roaring64.Bitmap // documents with a record
	bare     *roaring64.Bitmap // documents that only a posting has
	counted  bool              // the counters could be read
}

// maxRepairedID is beyond what a packed block can hold.
const maxRepairedID = 1 << 56

// addRecords adds every document that has a record.
func (d *rebuilding) addRecords() error {
	for r, err := range d.saved.Records(0) {
		if err != nil {
			return err
		}
		if r.ID >= maxRepairedID {
			d.repair.report.Dropped++
			continue
		}
		d.recorded.Add(r.ID)
		if err := d.add(r.ID, r.Record); err != nil {
			return err
		}
	}
	return nil
}

// addPostings adds the documents that a posting has and that have no record.
func (d *rebuilding) addPostings() error {
	limit := uint64(maxRepairedID)
	if d.counted && d.repair.report.Faults == 0 { // else the counters may be those of before what is damaged
		limit = d.counters.NextID
	}
	for p, err := range d.saved.Postings(0) {
		if err != nil {
			return err
		}
		for id := range p.IDs.All() {
			if d.recorded.Contains(id) {
				continue
			}
			if id == 0 || id >= limit || !d.bare.CheckedAdd(id) {
				d.repair.report.Dropped++
				continue
			}
			if err := d.add(id, store.Record{Fingerprint: p.Stored}); err != nil {
				return err
			}
		}
	}
	return nil
}

// countLost counts the documents that an entry of a key names and that have no record.
func (d *rebuilding) countLost() error {
	for key, err := range d.saved.Keys() {
		if err != nil {
			return err
		}
		for id := range key.IDs.All() {
			if !d.recorded.Contains(id) {
				d.repair.report.RecordsLost++
			}
		}
	}
	return nil
}

// addClock writes the clock as far as it makes sense. Documents from before its first
// entry count as that old.
func (d *rebuilding) addClock() error {
	oldest := uint64(math.MaxUint64)
	for _, ids := range []*roaring64.Bitmap{d.recorded, d.bare} {
		if !ids.IsEmpty() {
			oldest = min(oldest, ids.Minimum())
		}
	}
	any := false
	for c, err := range d.saved.Clock() {
		if err != nil {
			return err
		}
		if c.First == 0 || c.First > d.counters.NextID || c.Seconds > math.MaxInt64 {
			d.repair.report.Faults++
			continue
		}
		if !any {
			c.First = min(c.First, oldest)
		}
		any = true
		if err := d.r.AddClock(c.First, c.Seconds); err != nil {
			return err
		}
	}
	if !any {
		return d.r.AddClock(1, uint64(time.Now().Unix()))
	}
	return nil
}

// verify opens what was made.
func (r *repair) verify(ctx context.Context) error {
	x, err := index.Open(r.dest, &index.Options{FS: r.opts.FS, ReadOnly: true, CacheBytes: r.opts.CacheBytes, FilterBytes: r.opts.FilterBytes})
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotRepaired, err)
	}
	stats := x.Stats()
	r.report.Documents, r.report.Bare = stats.Documents, stats.Bare
	for p := range x.Verify(ctx, verify.Options{}) {
		if err = fmt.Errorf("%w: %v", ErrNotRepaired, p); p.Kind == verify.Unchecked && p.Err != nil {
			err = p.Err // the rest was not looked at
		}
		break // Close waits for Verify
	}
	return errors.Join(err, x.Close())
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
	return surgeon.SyncDir(fsys.PathDir(r.dir), fsys)
}
