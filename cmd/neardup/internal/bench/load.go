package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/index"
)

// loaded is what a bulk load or a compaction came to.
type loaded struct {
	report compaction.Report
	memory int64 // bytes that the process took at most, beyond what it had before; 0: not known
}

// peakDuring returns how much more memory the process had at most, while do ran, than
// before; 0 where the system is not Linux, which says so.
func peakDuring(do func()) int64 {
	runtime.GC()
	debug.FreeOSMemory()
	before := statusBytes("VmRSS")
	if os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) != nil { // forget the peak
		do()
		return 0
	}
	do()
	return max(0, statusBytes("VmHWM")-before)
}

// statusBytes returns a number of KiB in /proc/self/status as bytes, 0 if it is not there.
func statusBytes(name string) (bytes int64) {
	status, _ := os.ReadFile("/proc/self/status")
	fmt.Sscan(field(status, name), &bytes)
	return bytes << 10
}

// load makes the index that the sections share, and gives its figures.
func (r *run) load(ctx context.Context) error {
	if err := r.compacted(ctx); err != nil {
		return err
	}
	r.loadFigures("load", r.packed)
	return nil
}

// compacted loads the index that the sections share, unless it is there.
func (r *run) compacted(ctx context.Context) (err error) {
	if r.packed == nil {
		r.packed, err = r.bulkLoad(ctx, "compacted", false)
	}
	return err
}

// bulkLoad loads the collection into a new index.
func (r *run) bulkLoad(ctx context.Context, name string, keys bool) (l *loaded, err error) {
	r.Logf("loading %d fingerprints", r.Documents)
	l = new(loaded)
	l.memory = peakDuring(func() {
		l.report, err = compaction.Load(ctx, r.path(name), r.stored.documents(0, r.Documents, keys), compaction.LoadOptions{Index: *r.options()})
	})
	return l, err
}

func (r *run) loadFigures(section string, l *loaded) {
	r.figure(section, "bulk load", float64(r.Documents)/l.report.Seconds/1e6, "M/s")
	r.figure(section, "bulk load, in all", l.report.Seconds, "s")
	r.memory(section, l)
	r.disk(section, &l.report)
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

// memory gives what a load or a compaction took.
func (r *run) memory(section string, l *loaded) {
	if l.memory > 0 {
		r.figure(section, "memory that it takes, at most", mib(l.memory), "MiB")
	}
}

// live measures an index to which every document is added one by one, before and after it
// is compacted.
func (r *run) live(ctx context.Context) error {
	dir := r.path("live")
	r.Logf("adding %d documents", r.Documents)
	begun := time.Now()
	if err := withIndex(dir, r.options(), func(x *index.Index) error { return add(ctx, x, r.stored) }); err != nil {
		return err
	}
	r.figure("live", "add, 10,000 a batch, NoSync, to the end of Close", float64(r.Documents)/time.Since(begun).Seconds()/1e3, "k/s")
	err := withIndex(dir, r.options(), func(x *index.Index) error {
		r.figure("live", "disk, in all, a document", float64(x.Stats().DiskBytes)/float64(r.Documents), "B")
		return r.queries(ctx, "live", x)
	})
	if err != nil {
		return err
	}
	r.Logf("compacting %d documents", r.Documents)
	var l loaded
	l.memory = peakDuring(func() {
		l.report, err = compaction.Run(ctx, dir, compaction.Options{CacheBytes: r.CacheBytes})
	})
	if err != nil {
		return err
	}
	r.figure("live", "compaction of documents added one by one", l.report.Seconds, "s")
	r.memory("live", &l)
	err = withIndex(dir, r.options(), func(x *index.Index) error { return r.verified(ctx, "live", x, nil) })
	return errors.Join(err, os.RemoveAll(dir))
}

// add adds all documents of a collection, in large batches.
func add(ctx context.Context, x *index.Index, c collection) error {
	const batch = 10_000
	for from := 0; from < c.n; from += batch {
		var docs []index.Document
		for i := from; i < min(from+batch, c.n); i++ {
			docs = append(docs, c.document(i))
		}
		if err := x.Add(ctx, docs...); err != nil {
			return err
		}
	}
	return nil
}
