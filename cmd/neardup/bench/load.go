package bench

import (
	"context"
	"os"
	"time"

	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/index"
)

// loadTask loads the collection in bulk into a new index.
func loadTask(ctx context.Context, t *task) (o outcome, err error) {
	begun := time.Now()
	err = withIndex(t.Dir, t.options(), func(x *index.Index) error {
		return add(ctx, x, t.stored(), 0, t.Documents, t.Keys, nil)
	})
	if err != nil {
		return o, err
	}
	if _, err = compaction.Run(ctx, t.Dir, compaction.Options{CacheBytes: t.CacheBytes}); err != nil {
		return o, err
	}
	o.Seconds = time.Since(begun).Seconds()
	return o, nil
}

// addBatch is the number of documents that add commits together.
const addBatch = 10_000

// add adds documents of the collection in large batches and tells how far it is.
func add(ctx context.Context, x *index.Index, c collection, from, to int, keys bool, progress func(done int)) error {
	batch := make([]index.Document, 0, addBatch)
	flush := func() error {
		err := x.Add(ctx, batch...)
		batch = batch[:0]
		return err
	}
	done := from
	for d := range c.documents(from, to, keys) {
		batch = append(batch, d)
		if len(batch) < addBatch {
			continue
		}
		if err := flush(); err != nil {
			return err
		}
		if done += addBatch; progress != nil {
			progress(done)
		}
	}
	return flush()
}

// compacted loads the index that the sections share, unless it is there.
func (r *run) compacted(ctx context.Context) error {
	if r.packed != nil {
		return nil
	}
	r.logf("loading %d fingerprints", r.Documents)
	o, err := r.do(ctx, task{Name: "load", Dir: "compacted", MaxDistance: r.MaxDistance})
	if err != nil {
		return err
	}
	r.packed = &o
	return nil
}

// compactedGone makes room on the disk once no section needs that index any more.
func (r *run) compactedGone() error {
	r.packed = nil
	return os.RemoveAll(r.path("compacted"))
}

func (r *run) load(ctx context.Context) error {
	if err := r.compacted(ctx); err != nil {
		return err
	}
	o := r.packed
	r.figure("load", "bulk load", float64(r.Documents)/o.Seconds/1e6, "M/s")
	r.figure("load", "bulk load, in all", o.Seconds, "s")
	if o.Peak > 0 {
		r.figure("load", "memory of the process, at most", mib(o.Peak), "MiB")
	}
	return withIndex(r.path("compacted"), r.options(r.MaxDistance), func(x *index.Index) error {
		r.report.Plan = x.Plan().String()
		r.disk("load", x.Stats())
		return nil
	})
}

// disk gives the sizes on disk.
func (r *run) disk(section string, s index.Stats) {
	n := float64(s.Documents)
	r.figure(section, "disk, in all", mib(int64(s.DiskBytes)), "MiB")
	r.figure(section, "disk, in all, a document", float64(s.DiskBytes)/n, "B")
}

func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }
