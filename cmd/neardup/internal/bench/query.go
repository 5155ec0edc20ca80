package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
)

// Streams of questions, so that no two purposes ask the same.
const (
	streamVerify = iota + 1
	streamReference
	streamWarm
	streamTimed
	streamBatch
)

// compare builds the reference, unless it is there. It is nil if none is wanted.
func (r *run) compare(ctx context.Context) (*reference, error) {
	if r.compared != nil || r.NoReference {
		return r.compared, nil
	}
	r.logf("sorting %d tables of %d fingerprints in memory", r.MaxDistance+1, r.Documents)
	begun := time.Now()
	var err error
	if r.compared, err = newReference(ctx, r.stored, r.MaxDistance); err != nil {
		return nil, err
	}
	r.builtReference = time.Since(begun)
	return r.compared, nil
}

func (r *run) reference(ctx context.Context) error {
	ref, err := r.compare(ctx)
	if ref == nil || err != nil {
		return err
	}
	r.figure("reference", "sorting the tables", r.builtReference.Seconds(), "s")
	r.figure("reference", "memory", mib(ref.bytes()), "MiB")
	questions := r.stored.questions(r.MaxDistance, streamReference)
	answer := referenceAnswer(ref)
	each := &contender{run: eachOf(answer)}
	var one latencies
	timed := &contender{run: one.timed(answer)}
	if err := takeTurns(ctx, questions, r.Time, each, timed); err != nil {
		return err
	}
	r.times("reference", each, nil, one)
	return nil
}

func referenceAnswer(ref *reference) func(fingerprint.Fingerprint) error {
	var found []uint64
	return func(fp fingerprint.Fingerprint) error {
		found = ref.query(uint64(fp), found[:0])
		return nil
	}
}

// times gives the figures of one thread.
func (r *run) times(section string, c, ref *contender, one latencies) {
	overMean, overMedian := 0.0, 0.0
	if ref != nil {
		overMean, overMedian = c.mean()/ref.mean(), c.over(ref)
	}
	r.figureOver(section, "mean", c.mean(), "us", overMean)
	r.figureOver(section, "median round", c.median(), "us", overMedian)
	p99 := quantile(one, 0.99)
	r.figure(section, "p50", quantile(one, 0.5), "us")
	r.figure(section, "p99", p99, "us")
	r.figure(section, "p99 over the mean", p99/c.mean(), "times")
}

func (r *run) query(ctx context.Context) error {
	if err := r.compacted(ctx); err != nil {
		return err
	}
	return r.withQueries(ctx, "query", r.path("compacted"), func(x *index.Index) {
		stats := x.Stats()
		r.figure("query", "tables", float64(stats.Tables), "")
		r.figure("query", "probes a query", float64(stats.Probes), "")
	})
}

// withQueries opens an index and gives the figures of first and of its queries.
func (r *run) withQueries(ctx context.Context, section, dir string, first func(x *index.Index)) error {
	return withIndex(dir, r.options(), func(x *index.Index) error {
		first(x)
		return r.queries(ctx, section, x)
	})
}

// queries verifies an open index, warms it up and gives the times of its queries.
func (r *run) queries(ctx context.Context, section string, x *index.Index) error {
	ref, err := r.compare(ctx)
	if err != nil {
		return err
	}
	if err := r.verified(ctx, section, x); err != nil {
		return err
	}
	if ref != nil {
		if err := r.verifiedByReference(ctx, section, x, ref); err != nil {
			return err
		}
	}
	answer := indexAnswer(ctx, x)
	if err := warmUp(ctx, x, r.stored.questions(r.MaxDistance, streamWarm), r.Time); err != nil {
		return err
	}
	if ref != nil {
		before := gcPercentWithout(ref.bytes())
		defer debug.SetGCPercent(before)
	}

	var one latencies
	each := &contender{run: eachOf(answer)}
	timed := &contender{run: one.timed(answer)}
	threads := runtime.GOMAXPROCS(0)
	parallel := &contender{run: onThreads(threads, answer)}
	batch := &contender{run: func(asked []fingerprint.Fingerprint) error { return queryBatch(ctx, x, asked) }}
	contenders := []*contender{each, timed, parallel, batch}
	var compared *contender
	if ref != nil {
		compared = &contender{run: eachOf(referenceAnswer(ref))}
		contenders = append(contenders, compared)
	}
	if err := takeTurns(ctx, r.stored.questions(r.MaxDistance, streamTimed), time.Duration(len(contenders))*r.Time, contenders...); err != nil {
		return err
	}
	r.times(section, each, compared, one)
	if compared != nil {
		r.figure(section, "the reference in the same rounds, mean", compared.mean(), "us")
	}
	stats, n := x.Stats(), float64(r.Documents)
	r.cached(section, stats)
	r.figure(section, "memory of filters, a fingerprint", float64(stats.FilterBytes)/n, "B")
	r.figure(section, "memory of directories, a fingerprint", float64(stats.DirectoryBytes)/n, "B")
	r.figure(section, fmt.Sprintf("%d threads", threads), 1/parallel.median(), "M/s")
	r.figure(section, fmt.Sprintf("%d threads over one", threads), 1/parallel.over(each), "times")
	r.figure(section, fmt.Sprintf("QueryBatch on %d cores", threads), 1/batch.median(), "M/s")
	return r.largeBatch(ctx, section, x, batch.median())
}

// largeBatch is how many queries are asked at once, where there are a tenth as many
// fingerprints at least.
const largeBatch = 1_000_000

// largeBatch times one, unless it would take half a minute, by what a query of a small one takes.
func (r *run) largeBatch(ctx context.Context, section string, x *index.Index, us float64) error {
	n := min(largeBatch, 10*r.Documents)
	if us*float64(n) > 30e6 {
		return nil
	}
	asked := r.stored.questions(r.MaxDistance, streamBatch).next(n)
	begun := time.Now()
	if err := queryBatch(ctx, x, asked); err != nil {
		return err
	}
	r.figure(section, fmt.Sprintf("%d queries in one QueryBatch", len(asked)), time.Since(begun).Seconds(), "s")
	return nil
}

// cached gives how much of the tables was in memory, and warns if that was not all.
func (r *run) cached(section string, s index.Stats) {
	if s.Generation == 0 {
		return
	}
	r.figure(section, "packed blocks in memory", mib(int64(s.CachedBytes)), "MiB")
	if int64(s.CachedBytes) > r.CacheBytes*3/4*98/100 {
		r.logf("%s: a cache of %d MiB does not hold all that was asked for: the times contain reads of files", section, r.CacheBytes>>20)
	}
}

func indexAnswer(ctx context.Context, x *index.Index) func(fingerprint.Fingerprint) error {
	return func(fp fingerprint.Fingerprint) error {
		_, err := x.Query(ctx, fp)
		return err
	}
}

// gcPercentWithout makes the garbage collector run as often as it would if so many
// bytes of memory were not there, and returns what was set before: the reference has
// nothing to follow, so it costs a cycle no time, but it would make them rarer.
func gcPercentWithout(bytes int64) (before int) {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	before = debug.SetGCPercent(100)
	rest := max(int64(m.HeapAlloc)-bytes, 4<<20)
	debug.SetGCPercent(max(1, int(100*rest/int64(m.HeapAlloc))))
	return before
}

// warmUp asks on all cores, until that gets neither faster nor brings more into memory.
func warmUp(ctx context.Context, x *index.Index, questions *questions, long time.Duration) error {
	const patience = 30
	ask := onThreads(runtime.GOMAXPROCS(0), indexAnswer(ctx, x))
	before, cached := math.Inf(1), uint64(0)
	for range patience {
		c := &contender{run: ask}
		if err := takeTurns(ctx, questions, long, c); err != nil {
			return err
		}
		s := x.Stats()
		if c.median() > 0.98*before && float64(s.CachedBytes) <= 1.002*float64(cached) {
			return nil
		}
		before, cached = c.median(), s.CachedBytes
	}
	return nil
}

// onThreads lets some goroutines answer a share each.
func onThreads(threads int, answer func(fingerprint.Fingerprint) error) func([]fingerprint.Fingerprint) error {
	return func(asked []fingerprint.Fingerprint) error {
		errs := make([]error, threads)
		var wg sync.WaitGroup
		for t := range threads {
			wg.Go(func() {
				errs[t] = eachOf(answer)(asked[len(asked)*t/threads : len(asked)*(t+1)/threads])
			})
		}
		wg.Wait()
		return errors.Join(errs...)
	}
}

func queryBatch(ctx context.Context, x *index.Index, asked []fingerprint.Fingerprint) error {
	for _, err := range x.QueryBatch(ctx, asked) {
		if err != nil {
			return err
		}
	}
	return nil
}

// verified compares answers with a scan of everything.
func (r *run) verified(ctx context.Context, section string, x *index.Index) error {
	asked, err := verify(ctx, x, r.stored, r.MaxDistance)
	if err == nil {
		r.figure(section, "answers the same as those of a full scan", float64(asked), "queries")
	}
	return err
}

// referenceQuestions is the number of answers that are compared with the reference's.
const referenceQuestions = 10_000

func (r *run) verifiedByReference(ctx context.Context, section string, x *index.Index, ref *reference) error {
	asked := r.stored.questions(r.MaxDistance, streamReference).next(referenceQuestions)
	var found []uint64
	for answer, err := range x.QueryBatch(ctx, asked) {
		if err != nil {
			return err
		}
		fp := asked[answer.Query]
		found = ref.query(uint64(fp), found[:0])
		if err := verifyReference(fp, answer.Matches, found); err != nil {
			return err
		}
	}
	r.figure(section, "answers the same as those of the reference", referenceQuestions, "queries")
	return nil
}
