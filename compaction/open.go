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

// Compact packs an index that is open, while others write to it, query it, delete from it and make checkpoints
// of it: what is live when it begins, in the place of what was packed before and together with it. What is
// written meanwhile stays live. Writes wait while the new tables take their place, some
// milliseconds; queries never do. The space of records that were deleted or replaced comes back as the
// store's own compactions come to them; Run does that as well.
//
// With Options.Plan the index has another plan, and its MaxDistance, from that step on: a query before it is answered within the old one.
// What is written meanwhile takes the entries of both. Open refuses the old MaxDistance and plan from then on.
//
// Of Options it takes Plan, MemoryBytes and Progress; all others are those of the index. It takes time, memory and
// disk as Run does. One compaction of an index goes on at a time; a second call waits.
//
// Errors: index.ErrClosed when the index is closed meanwhile, ctx's, those of the file system, ErrFailed. Whatever
// it is, no document is lost, the plan is the old one or, in the step, the new one (Stats), and the next Compact or Run goes on from there.
func Compact(ctx context.Context, x *index.Index, opts Options) (report Report, err error) {
	defer report.timed(time.Now())
	report.BytesBefore = x.Stats().DiskBytes
	if err = opts.check(); err == nil {
		err = x.Rewrite(ctx, opts.Plan, nil, func(ctx context.Context, f rewrite.Frozen) (rewrite.Packed, error) {
			return pack(ctx, f, &opts, &report)
		})
	}
	after := x.Stats()
	report.Documents, report.Plan, report.BytesAfter = after.Documents, after.Plan, after.DiskBytes
	if err != nil {
		return report, fmt.Errorf("compact the open index: %w", err)
	}
	return report, nil
}

// pack makes new tables of what is frozen.
func pack(ctx context.Context, f rewrite.Frozen, opts *Options, report *Report) (p rewrite.Packed, err error) {
	of := *opts
	b, err := newBuilder(ctx, f.Store, f.Plan, &of, report)
	if err != nil {
		return p, err
	}
	return b.pack(f)
}

// pack makes new tables of what is frozen and what was added.
func (b *builder) pack(f rewrite.Frozen) (p rewrite.Packed, err error) {
	b.from, b.before, b.opts.FilterBytes = f.View, f.Counters, f.FilterBytes
	if err = b.report.measureBefore(f.Store, len(f.Plan.Tables)); err == nil {
		err = b.write()
	}
	if err == nil {
		err = b.r.Prepare(f.Plan.String(), f.Counters.NextID, nil)
	}
	if err != nil {
		return p, errors.Join(err, b.close())
	}
	packed := b.r.Packed()
	for i, info := range packed {
		t := &b.report.Tables[i]
		t.EntriesAfter, t.BytesAfter = info.Entries, info.Bytes
		for chunk := range b.filters[i].chunks() {
			t.FilterBytes += uint64(len(chunk))
		}
	}
	return rewrite.Packed{
		Rewrite: b.r,
		Entries: packed[0].Entries,
		Filter:  func(table int) iter.Seq2[[]byte, error] { return b.filters[table].chunks() },
		Close:   b.close,
	}, nil
}
