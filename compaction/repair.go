package compaction

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/plan"
	"github.com/neardup/neardup/store"
)

// RepairOptions configures Repair. The zero value is ready to use.
type RepairOptions struct {
	// Options of the new index. Plan and Analyzer are required if the meta entries of the damaged
	// index cannot be read, and are not used otherwise.
	Options

	// Analyzer points to the name of the analyzer, or to "" for an index without an analyzer.
	Analyzer *string

	// Unreadable, if set, is called with the error of each place that cannot be read.
	Unreadable func(error)
}

// RepairReport has the numbers of documents that Repair copied and lost.
type RepairReport struct {
	Documents uint64 `json:"documents"` // in the new index
	Bare      uint64 `json:"bare"`      // copied documents that have only a fingerprint

	// DocumentsBefore is the number of documents of the damaged index. 0: it cannot be read.
	DocumentsBefore uint64 `json:"documentsBefore,omitempty"`

	// Lost is the number of documents that are known to be missing in the new index.
	Lost       uint64  `json:"lost"`
	Unreadable uint64  `json:"unreadable"` // places that cannot be read
	Seconds    float64 `json:"seconds"`
}

// ErrNotRepaired means that the meta entries of the damaged index cannot be read, and that the
// options have no Plan or no Analyzer.
var ErrNotRepaired = errors.New("the index cannot be repaired")

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
	defer func() {
		if report.Seconds = time.Since(start).Seconds(); err != nil {
			err = fmt.Errorf("repair index %s: %w", dir, err)
		}
	}()
	if err := opts.check(); err != nil {
		return report, err
	}
	if _, err := opts.fs().Stat(dest); err == nil {
		return report, fmt.Errorf("%s: %w: name a directory that does not exist", dest, fs.ErrExist)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return report, err
	}
	damaged, err := store.Open(dir, store.Options{ReadOnly: true, Damaged: true,
		CacheBytes: opts.CacheBytes, FS: opts.FS, Logger: opts.Logger})
	if err != nil {
		return report, err
	}
	defer damaged.Close() // Unreadable was called with its errors
	view, err := damaged.View()
	if err != nil {
		return report, err
	}
	defer view.Close()
	meta, p, err := repairedMeta(view, &opts)
	if err != nil {
		return report, err
	}
	report.DocumentsBefore = meta.Counters.Documents
	s, err := store.Open(dest, store.Options{Create: &meta,
		CacheBytes: opts.CacheBytes, FS: opts.FS, Logger: opts.Logger})
	if err == nil {
		err = errors.Join(copyDocuments(ctx, view, s, p, meta.Counters, &opts, &report), s.Close())
	}
	if err != nil {
		err = errors.Join(err, opts.fs().RemoveAll(dest))
	}
	return report, err
}

// repairedMeta returns the meta entries and the plan of the damaged index. If its meta entries
// cannot be read, the options provide the plan and the analyzer, and the counters are zero. The
// options have no defaults: another k or analyzer would cause wrong verdicts.
func repairedMeta(
	view *store.View, opts *RepairOptions,
) (meta store.Meta, p *plan.Plan, err error) {
	meta, err = view.Meta()
	if err == nil {
		p, err = plan.Parse(meta.Plan)
	}
	if err == nil || errors.Is(err, index.ErrVersion) {
		return meta, p, err
	}
	if opts.Plan == nil || opts.Analyzer == nil {
		return meta, nil, fmt.Errorf(
			"%w: its meta entries cannot be read; its plan, k and analyzer are required: %w",
			ErrNotRepaired, err)
	}
	p, err = plan.New(opts.Plan.MaxDistance, opts.Plan.Tables...)
	if err != nil {
		return meta, nil, err
	}
	return store.Meta{Plan: p.String(), Analyzer: *opts.Analyzer}, p, nil
}

// copyDocuments fills a new store with the documents that can be read, in one commit.
func copyDocuments(
	ctx context.Context, from *store.View, to *store.Store, p *plan.Plan, before store.Counters,
	opts *RepairOptions, report *RepairReport,
) (err error) {
	b, err := newBuilder(ctx, to, p, &opts.Options, new(Report))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	b.counters.NextID = max(b.counters.NextID, before.NextID)
	lost, err := from.Remains(func(record store.Record) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return b.add(record)
	}, func(err error) {
		if report.Unreadable++; opts.Unreadable != nil {
			opts.Unreadable(err)
		}
	})
	if err != nil {
		return err
	}
	if err := b.finish(); err != nil {
		return err
	}
	report.Documents, report.Bare = b.counters.Documents, b.counters.Bare
	report.Lost = max(lost, before.Documents-min(before.Documents, report.Documents))
	return nil
}
