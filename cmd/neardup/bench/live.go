package bench

import (
	"context"
	"os"
	"time"

	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/index"
)

// fill makes an index by adding every document, unless it is there.
func (r *run) fill(ctx context.Context) (took time.Duration, err error) {
	if r.lived {
		return 0, nil
	}
	r.logf("adding %d documents", r.Documents)
	begun := time.Now()
	err = withIndex(r.path("live"), r.options(r.MaxDistance), func(x *index.Index) error {
		told := begun
		return add(ctx, x, r.stored, 0, r.Documents, false, func(done int) {
			if time.Since(told) > progressEvery {
				told = time.Now()
				r.logf("added %d", done)
			}
		})
	})
	r.lived = err == nil
	return time.Since(begun), err
}

func (r *run) live(ctx context.Context) error {
	took, err := r.fill(ctx)
	if err != nil {
		return err
	}
	r.figure("live", "add, 10,000 a batch, NoSync, to the end of Close", float64(r.Documents)/took.Seconds()/1e3, "k/s")
	err = withIndex(r.path("live"), r.options(r.MaxDistance), func(x *index.Index) error {
		r.figure("live", "disk, in all, a document", float64(x.Stats().DiskBytes)/float64(r.Documents), "B")
		return r.queries(ctx, "live", x)
	})
	if err != nil {
		return err
	}
	return r.resident(ctx, "live", "live")
}

func (r *run) compact(ctx context.Context) error {
	if _, err := r.fill(ctx); err != nil {
		return err
	}
	r.logf("compacting %d documents", r.Documents)
	o, err := r.do(ctx, task{Name: "compact", Dir: "live", MaxDistance: r.MaxDistance})
	if err != nil {
		return err
	}
	r.figure("compact", "compaction of documents added one by one", o.Report.Seconds, "s")
	if o.Peak > 0 {
		r.figure("compact", "memory of the process, at most", mib(o.Peak), "MiB")
	}
	before := 0.0
	for _, t := range o.Report.Tables {
		before += float64(t.BytesBefore)
	}
	r.figure("compact", "disk, tables before, a document", before/float64(r.Documents), "B")
	r.disk("compact", &o.Report)
	err = withIndex(r.path("live"), r.options(r.MaxDistance), func(x *index.Index) error {
		return r.verified(ctx, "compact", x, r.stored, r.MaxDistance)
	})
	if err != nil {
		return err
	}
	r.lived = false
	return os.RemoveAll(r.path("live"))
}

func compactTask(ctx context.Context, t *task) (o outcome, err error) {
	o.Report, err = compaction.Run(ctx, t.Dir, compaction.Options{
		CacheBytes:  t.CacheBytes,
		FilterBytes: t.FilterBytes,
		Progress:    t.progress(),
	})
	return o, err
}
