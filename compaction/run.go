// Package compaction packs the tables of an index, which may be open and in use meanwhile (Compact,
// Background) or closed (Run), also under another plan. It loads documents in bulk, and repairs what is damaged.
//
// It guarantees that the documents of an index, and the answers to every query, are
// those of before or those of after, wherever the work is cut short: it switches over
// in one step, and what was prepared in vain is swept away at the next open.
package compaction

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/neardup/neardup/internal/plan"
	"github.com/neardup/neardup/store"
)

// ErrDone: the work is done, for good, and only what comes after it failed: to sweep up,
// to close the index or to measure it for the report, which is not complete then.
var ErrDone = errors.New("the work is done, but not what comes after it")

// afterwards marks an error of what comes after the work.
func afterwards(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrDone, err)
}

// Run compacts the index in dir, which must exist and must not be open: it packs the
// entries of every table into blocks, makes the prefix filters, and gives back the
// space of what was deleted or replaced. With Options.Plan the index gets another
// plan.
//
// It takes time in proportion to the size of the index, memory as Options say, and
// free disk for the new tables beside the old ones and for sorting: about 25 bytes
// a fingerprint in all with two tables.
//
// Errors: those of index.Open, ctx's, those of the file system, ErrFailed and ErrDone.
// Whatever it is, the documents are what they were; after any but ErrDone the tables are
// packed or as they were, and Run does the rest when it is called again.
func Run(ctx context.Context, dir string, opts Options) (report Report, err error) {
	defer report.timed(time.Now())
	if err = opts.check(); err == nil {
		err = work(dir, &opts, &report, func(s *store.Store, has *plan.Plan) error {
			return runTables(ctx, s, has, &opts, &report)
		})
	}
	if err == nil {
		opts.progress(Progress{Stage: StageRecords})
		err = runRecords(ctx, dir, &opts, &report)
	}
	if err != nil {
		return report, fmt.Errorf("compact index %s: %w", dir, err)
	}
	return report, nil
}

// runTables packs the tables of an index under its own plan or another one, unless they are packed.
func runTables(ctx context.Context, s *store.Store, has *plan.Plan, opts *Options, report *Report) (err error) {
	to := has
	if opts.Plan != nil {
		if to, err = plan.New(opts.Plan.MaxDistance, opts.Plan.Tables...); err != nil {
			return err
		}
	}
	if to.String() == has.String() && s.Now().Generation() > 0 {
		if live, err := hasLive(s); err != nil || !live {
			return err
		}
	}
	b, err := newBuilder(ctx, s, has, opts, report)
	if err != nil {
		return err
	}
	if to.String() != has.String() {
		b.replan(to)
	}
	return errors.Join(b.finish(), b.close())
}

// hasLive reports whether the store has any live entry.
func hasLive(s *store.Store) (live bool, err error) {
	v, err := s.View()
	if err != nil {
		return false, err
	}
	for _, err = range v.Live(0) {
		live = err == nil
		break
	}
	return live, errors.Join(err, v.Close())
}

// runRecords compacts what is beside the tables, and completes the report.
func runRecords(ctx context.Context, dir string, opts *Options, report *Report) error {
	s, err := openStore(dir, opts)
	if err != nil {
		return err
	}
	if err := s.CompactRecords(ctx); err != nil {
		return errors.Join(err, s.Close())
	}
	return afterwards(report.closed(s, dir, opts))
}

func openStore(dir string, opts *Options) (*store.Store, error) {
	return store.Open(dir, store.Options{CacheBytes: opts.CacheBytes, FS: opts.FS, Logger: opts.Logger})
}
