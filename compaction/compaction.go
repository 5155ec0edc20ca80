// Package compaction works over an index that no one writes to: it packs its
// tables, puts it under another plan, and loads documents in bulk.
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

	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/store"
)

// Run compacts the index in dir, which must exist and must not be open: it packs the
// entries of every table into blocks, makes the prefix filters, and gives back the
// space of what was deleted or replaced. With Options.Plan the index gets another
// plan.
//
// It takes time in proportion to the size of the index, memory as Options say, and
// free disk for the new tables beside the old ones and for sorting: about 25 bytes
// a fingerprint in all with two tables. Errors as of index.Open, ctx's, and those of
// the file system; the index is as it was then.
func Run(ctx context.Context, dir string, opts Options) (report Report, err error) {
	defer report.timed(time.Now())
	err = work(dir, &opts, &report, func(s *store.Store, plan *index.Plan) error {
		live, err := s.HasLive()
		if err != nil {
			return err
		}
		if live || s.Generation() == 0 || plan.String() != s.Header().Plan {
			if err := repack(ctx, s, plan, &opts, &report); err != nil {
				return err
			}
		}
		opts.progress(Progress{Stage: StageRecords})
		return s.CompactRecords(ctx)
	})
	if err != nil {
		return Report{}, fmt.Errorf("compact index %s: %w", dir, err)
	}
	return report, nil
}

// work opens the closed index in dir, does f, and completes the report.
func work(dir string, opts *Options, report *Report, f func(*store.Store, *index.Plan) error) (err error) {
	if report.BytesBefore, err = size(dir, opts.fs()); err != nil {
		return err
	}
	open := func(f func(s *store.Store) error) error {
		s, err := store.Open(dir, store.Options{CacheBytes: opts.CacheBytes, FS: opts.FS, Logger: opts.Logger})
		if err != nil {
			return err
		}
		return errors.Join(f(s), s.Close())
	}
	err = open(func(s *store.Store) error {
		plan, err := planOf(s, opts)
		if err != nil {
			return err
		}
		if err := report.measureBefore(s, len(plan.Tables)); err != nil {
			return err
		}
		return f(s, plan)
	})
	if err != nil {
		return err
	}
	err = open(func(s *store.Store) error {
		report.Documents, report.Plan = s.Counters().Documents, s.Header().Plan
		return report.measureAfter(s)
	})
	if err != nil {
		return err
	}
	report.BytesAfter, err = size(dir, opts.fs())
	return err
}

// planOf returns the plan that the index is to have.
func planOf(s *store.Store, opts *Options) (*index.Plan, error) {
	plan, err := index.ParsePlan(s.Header().Plan)
	if err != nil {
		return nil, fmt.Errorf("%w: recorded plan: %w", index.ErrCorrupt, err)
	}
	if opts.Plan == nil {
		return plan, nil
	}
	return index.NewPlan(opts.Plan.MaxDistance, opts.Plan.Tables...)
}

// repack writes all tables anew.
func repack(ctx context.Context, s *store.Store, plan *index.Plan, opts *Options, report *Report) (err error) {
	r, err := s.NewReplacement(len(plan.Tables))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	m := merge{s: s, r: r, plan: plan, opts: opts, report: report}
	if err := m.run(ctx, nil); err != nil {
		return err
	}
	return r.Commit(ctx, plan.String(), s.Counters())
}
