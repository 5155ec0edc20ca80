// Package compaction packs the tables of an index. Compact and Background pack an open index. Run
// packs a closed index and can change its plan. Load loads documents in bulk. Repair repairs
// damaged indexes.
//
// Each function installs its result in one atomic step. After an error, an interruption or a crash,
// the index has either the complete result or its earlier state. The next Open deletes the files of
// an interrupted call.
package compaction

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/neardup/neardup/internal/plan"
	"github.com/neardup/neardup/store"
)

// ErrDone reports that the work is done and durable, but a later step has failed. The later steps
// are deleting temporary files, closing the index, and measuring it for the report. The report may
// be incomplete.
var ErrDone = errors.New("the work is done, but a later step has failed")

// afterwards marks an error of a later step with ErrDone.
func afterwards(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrDone, err)
}

// Run compacts the index in dir, which must exist and must not be open. It packs the entries of all
// tables, without removed documents, into blocks, builds the filters, and frees the disk space of
// deleted and replaced records. If Options.Plan is set, the index gets that plan.
//
// The time of Run is proportional to the size of the index. Options bounds its memory. Run needs
// free disk space for the new tables, because the old tables exist at the same time, and for
// sorting. With two tables, this is about 25 bytes per fingerprint.
//
// Errors: index.ErrFailed, ErrDone, and the errors of index.Open, ctx and the file system. After an
// error, the documents are unchanged. After an error other than ErrDone, the tables are either
// packed or unchanged, and another Run completes the work.
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
func pack(
	ctx context.Context, s *store.Store, from *plan.Plan, opts *Options, report *Report,
) (err error) {
	to := from
	if opts.Plan != nil {
		// New returns the plan in its stored form, which is compared below.
		if to, err = plan.New(opts.Plan.MaxDistance, opts.Plan.Tables...); err != nil {
			return err
		}
	}
	if live, err := hasLive(s); err != nil || !live && s.Now().Generation() > 0 &&
		to.String() == from.String() {
		return err
	}
	b, err := newBuilder(ctx, s, to, opts, report)
	if err != nil {
		return err
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
	return store.Open(dir, store.Options{CacheBytes: opts.CacheBytes, FS: opts.FS,
		Logger: opts.Logger})
}
