package bench

import (
	"context"
	"fmt"
	"math"
	"os"

	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/index"
)

// loadTask loads the collection in bulk into a new index.
func loadTask(ctx context.Context, t *task) (o outcome, err error) {
	open, err := t.options()
	if err != nil {
		return o, err
	}
	o.Report, err = compaction.Load(ctx, t.Dir, t.stored().documents(0, t.Documents, t.Keys), compaction.LoadOptions{
		Index:    *open,
		Progress: t.progress(),
	})
	return o, err
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
	r.report.Plan = r.packed.Report.Plan
	r.loaded("load", r.packed)
	return nil
}

// loaded gives the figures of a bulk load.
func (r *run) loaded(section string, o *outcome) {
	r.figure(section, "bulk load", float64(r.Documents)/o.Report.Seconds/1e6, "M/s")
	r.figure(section, "bulk load, in all", o.Report.Seconds, "s")
	if o.Peak > 0 {
		r.figure(section, "memory of the process, at most", mib(o.Peak), "MiB")
	}
	r.disk(section, &o.Report)
}

// disk gives the sizes on disk, and those of the tables over what a code needs that
// knows nothing but how many fingerprints there are.
func (r *run) disk(section string, report *compaction.Report) {
	n := float64(report.Documents)
	tables, filters := 0.0, 0.0
	for _, t := range report.Tables {
		tables += float64(t.BytesAfter)
		filters += float64(t.FilterBytes)
	}
	postings := 0.0
	if others := report.Tables[1:]; len(others) > 0 {
		// The tables hold the same number of uniform fingerprints each, and the first
		// one the postings as well.
		first := float64(report.Tables[0].BytesAfter)
		postings = max(0, first-(tables-first)/float64(len(others)))
	}
	bits := (tables - postings) / float64(len(report.Tables)) / float64(report.Tables[0].EntriesAfter) * 8
	r.figure(section, fmt.Sprintf("disk, %d tables without postings, a document", len(report.Tables)), (tables-postings)/n, "B")
	r.figure(section, "disk, an entry of a table", bits, "bits")
	r.figure(section, "disk, an entry over 64 - log2 n + 1.44 bits", bits/entropy(float64(report.Tables[0].EntriesAfter)), "times")
	r.figure(section, "disk, postings, a document", postings/n, "B")
	r.figure(section, "disk, filters, a document", filters/n, "B")
	r.figure(section, "disk, records, keys and the rest, a document", max(0, float64(report.BytesAfter)-tables-filters)/n, "B")
	r.figure(section, "disk, in all, a document", float64(report.BytesAfter)/n, "B")
	r.figure(section, "disk, in all", mib(int64(report.BytesAfter)), "MiB")
}

// entropy returns the bits that each of n random fingerprints needs, in any order.
func entropy(n float64) float64 { return 64 - math.Log2(n) + 1/math.Ln2 }

func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }
