package compaction

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/internal/plan"
	"github.com/neardup/neardup/store"
)

// RepairOptions of Repair. The zero value is ready to use.
type RepairOptions struct {
	// Options of the new index. Plan is required if the plan of the damaged index cannot be read,
	// and is not used otherwise.
	Options

	// Analyzer is required if the analyzer of the damaged index cannot be read, and is not used
	// otherwise. It points to "" for an index that was made without one.
	Analyzer *string

	// Unreadable, if set, is called with the error of each place that cannot be read.
	Unreadable func(error)
}

// RepairReport says what Repair copied and what it could not copy.
type RepairReport struct {
	Documents uint64 `json:"documents"` // in the new index
	Bare      uint64 `json:"bare"`      // of those, the ones that have only a fingerprint

	// DocumentsBefore is the number of documents of the damaged index. 0: it cannot be read.
	DocumentsBefore uint64 `json:"documentsBefore,omitempty"`

	// Lost is the number of documents that are known to be missing in the new index.
	Lost       uint64  `json:"lost"`
	Unreadable uint64  `json:"unreadable"` // places
	Seconds    float64 `json:"seconds"`
}

// ErrNotRepaired: a new index cannot be made; none was left.
var ErrNotRepaired = errors.New("the index cannot be repaired")

// maxRepairedID is the limit of the IDs that a packed block can hold.
const maxRepairedID = 1 << 56

// Repair copies every document that can be read from the index in dir into a new index in dest. It
// skips blocks that cannot be read, and counts the lost documents. Documents keep their IDs and
// their times. The new index has the plan and the analyzer of the old one.
//
// The index in dir must not be open, and is not changed. The directory dest must not exist. If the
// call fails, it removes dest. An index whose database Pebble refuses to open cannot be repaired:
// restore a checkpoint. Repair takes time, memory and disk as Load does for as many documents.
//
// Errors: ErrNotRepaired, fs.ErrExist for dest, index.ErrCorrupt, index.ErrLocked,
// index.ErrNotIndex, index.ErrVersion, fs.ErrNotExist, errors of ctx and of the file system.
func Repair(
	ctx context.Context, dir, dest string, opts RepairOptions,
) (report RepairReport, err error) {
	start := time.Now()
	defer func() { report.Seconds = time.Since(start).Seconds() }()
	if opts.FS == nil {
		opts.FS = vfs.Default
	}
	if err = opts.check(); err == nil {
		err = repair(ctx, dir, dest, &opts, &report)
	}
	if err != nil {
		return report, fmt.Errorf("repair index %s: %w", dir, err)
	}
	return report, nil
}

func repair(
	ctx context.Context, dir, dest string, opts *RepairOptions, report *RepairReport,
) (err error) {
	if _, err := opts.FS.Stat(dest); err == nil {
		return fmt.Errorf("%s: %w: name a directory that does not exist", dest, fs.ErrExist)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	storeOptions := store.Options{CacheBytes: opts.CacheBytes, FS: opts.FS, Logger: opts.Logger}
	remains, err := store.OpenRemains(dir, storeOptions)
	if err != nil {
		return err
	}
	defer remains.Close() // Unreadable was called with its errors
	remains.Unreadable = func(err error) {
		if report.Unreadable++; opts.Unreadable != nil {
			opts.Unreadable(err)
		}
	}
	header, p, err := repairedHeader(remains, opts)
	if err != nil {
		return err
	}
	storeOptions.Create = &header
	s, err := store.Open(dest, storeOptions)
	if err == nil {
		err = errors.Join(copyDocuments(ctx, remains, s, p, opts, report), s.Close())
	}
	if err != nil {
		err = errors.Join(err, opts.FS.RemoveAll(dest))
	}
	return err
}

// repairedHeader returns the plan and the analyzer of the damaged index, or of the options if
// they cannot be read. It has no defaults: another k or analyzer would make wrong verdicts.
func repairedHeader(
	remains *store.Remains, opts *RepairOptions,
) (h store.Header, p *plan.Plan, err error) {
	text, ok := remains.Plan()
	if ok {
		p, err = plan.Parse(text)
	}
	if !ok || err != nil {
		if opts.Plan == nil {
			return h, nil, fmt.Errorf("%w: its plan cannot be read; give the plan and k that it "+
				"was made with", ErrNotRepaired)
		}
		if p, err = plan.New(opts.Plan.MaxDistance, opts.Plan.Tables...); err != nil {
			return h, nil, err
		}
	}
	h.Plan = p.String()
	if h.Analyzer, ok = remains.Analyzer(); !ok {
		if opts.Analyzer == nil {
			return h, nil, fmt.Errorf("%w: its analyzer cannot be read; give the analyzer that "+
				"it was made with", ErrNotRepaired)
		}
		h.Analyzer = *opts.Analyzer
	}
	return h, p, nil
}

// copyDocuments fills a new store in one commit.
func copyDocuments(
	ctx context.Context, remains *store.Remains, s *store.Store, p *plan.Plan, opts *RepairOptions,
	report *RepairReport,
) (err error) {
	b, err := newBuilder(ctx, s, p, &opts.Options, new(Report))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	before, counted := remains.Counters()
	if counted {
		b.counters.NextID, report.DocumentsBefore = before.NextID, before.Documents
	}
	for id, record := range remains.Documents() {
		if id >= maxRepairedID {
			continue
		}
		if err := cmp.Or(ctx.Err(), b.add(id, record)); err != nil {
			return err
		}
	}
	if err := remains.Err(); err != nil {
		return err
	}
	if err := b.finish(); err != nil {
		return err
	}
	report.Documents, report.Bare, report.Lost = b.counters.Documents, b.counters.Bare, remains.Lost
	if counted && before.Documents > report.Documents {
		report.Lost = max(report.Lost, before.Documents-report.Documents)
	}
	return nil
}
