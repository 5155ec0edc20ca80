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
	"slices"
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
		err = work(dir, &opts, &report, func(s *store.Store, from *plan.Plan) error {
			if err := pack(ctx, s, from, &opts, &report); err != nil {
				return err
			}
			opts.progress(Progress{Stage: StageRecords})
			return s.CompactRecords(ctx)
		})
	}
	if err != nil {
		return report, fmt.Errorf("compact index %s: %w", dir, err)
	}
	return report, nil
}

// pack packs the tables of a closed index, if there is anything to pack or the plan changes.
func pack(ctx context.Context, s *store.Store, from *plan.Plan, opts *Options, report *Report) (err error) {
	to := from
	if opts.Plan != nil {
		if to, err = plan.New(opts.Plan.MaxDistance, opts.Plan.Tables...); err != nil { // in the form that is recorded
			return err
		}
	}
	if live, err := hasLive(s); err != nil || !live && s.Now().Generation() > 0 && to.String() == from.String() {
		return err
	}
	b, err := newBuilder(ctx, s, to, opts, report)
	if err != nil {
		return err
	}
	if report.Tables = slices.Grow(report.Tables, len(to.Tables))[:len(to.Tables)]; len(to.Tables) != len(from.Tables) {
		clear(report.Tables[min(len(from.Tables), len(to.Tables)):])
	}
	return errors.Join(b.finish(), b.close())
}

// hasLive reports whether a store has any live entry or removed ID.
func hasLive(s *store.Store) (bool, error) {
	v, err := s.View()
	if err != nil {
		return false, err
	}
	any, err := v.HasLive()
	return any, errors.Join(err, v.Close())
}

func openStore(dir string, opts *Options) (*store.Store, error) {
	return store.Open(dir, store.Options{CacheBytes: opts.CacheBytes, FS: opts.FS, Logger: opts.Logger})
}
