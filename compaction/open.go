package compaction

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/rewrite"
)

// Compact packs an open index, while other calls write to it, query it and create checkpoints.
// It merges the packed tables and the live entries that exist when it begins into new packed
// tables, without removed documents. Entries that are written during the compaction stay live.
// Commits wait for some milliseconds while the new tables are installed. Queries never wait. Pebble
// frees the disk space of deleted and replaced records when it compacts its files. Run compacts
// these files immediately.
//
// Compact uses MemoryBytes and Progress of opts, and keeps all other settings of the index. Only
// Run changes the plan. Compact takes time, memory and disk space as Run does. Concurrent
// compactions of one index are serialized.
//
// Errors: index.ErrFailed, index.ErrClosed if the index is closed during the compaction, and the
// errors of ctx and the file system. After an error, no document is lost, and the next Compact or
// Run continues.
func Compact(ctx context.Context, x *index.Index, opts Options) (report Report, err error) {
	defer report.timed(time.Now())
	report.BytesBefore = x.Stats().DiskBytes
	if err = opts.check(); err == nil && opts.Plan != nil {
		err = errors.New("the plan of an open index cannot be changed: close it and call Run")
	}
	if err == nil {
		err = rewrite.Repack(ctx, x, func(ctx context.Context,
			f rewrite.Frozen) (rewrite.Packed, error) {
			return packFrozen(ctx, f, &opts, &report)
		})
	}
	after := x.Stats()
	report.Documents, report.Plan, report.BytesAfter = after.Documents, after.Plan, after.DiskBytes
	if err != nil {
		return report, fmt.Errorf("compact the open index: %w", err)
	}
	return report, nil
}

// packFrozen packs the entries that an open index has frozen into new tables.
func packFrozen(
	ctx context.Context, f rewrite.Frozen, opts *Options, report *Report,
) (p rewrite.Packed, err error) {
	o := *opts
	o.FilterBytes = f.FilterBytes
	b, err := newBuilder(ctx, f.Store, f.Plan, &o, report)
	if err != nil {
		return p, err
	}
	b.from, b.before = f.View, f.Counters
	if err = b.write(); err == nil {
		err = b.r.Prepare(f.Plan.String(), f.Counters.NextID, nil)
	}
	if err != nil {
		return p, errors.Join(err, b.close())
	}
	return rewrite.Packed{
		Rewrite: b.r,
		Entries: b.r.Entries(),
		Filter:  func(table int) iter.Seq2[[]byte, error] { return b.filters[table].chunks() },
		Close:   b.close,
	}, nil
}
