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

// errPlanOfOpen: Compact was given a plan.
var errPlanOfOpen = errors.New("the plan of an open index cannot be changed: close it and call Run")

// Compact packs an index that is open, while others write to it, query it, delete from it and make
// checkpoints of it: the live entries when it begins replace, together with the packed entries, what
// was packed before. What is written meanwhile stays live. Writes wait some milliseconds while the
// new tables replace the old ones; queries never wait. The space of records that were deleted or
// replaced comes back as the store's own compactions reach them; Run does that as well.
//
// Of Options it takes MemoryBytes and Progress; all others are those of the index. It takes time,
// memory and disk as Run does. One compaction of an index goes on at a time; a second call waits.
//
// Errors: index.ErrClosed when the index is closed meanwhile, ctx's, those of the file system,
// ErrFailed. After any of them no document is lost, and the next Compact or Run does the rest.
func Compact(ctx context.Context, x *index.Index, opts Options) (report Report, err error) {
	defer report.timed(time.Now())
	report.BytesBefore = x.Stats().DiskBytes
	if err = opts.check(); err == nil && opts.Plan != nil {
		err = errPlanOfOpen
	}
	if err == nil {
		err = rewrite.Index(ctx, x, func(ctx context.Context, f rewrite.Frozen) (rewrite.Packed, error) {
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
	b.from, b.before, b.opts.FilterBytes = f.View, f.Counters, f.FilterBytes
	if err = report.measureBefore(f.Store, len(f.Plan.Tables)); err == nil {
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
