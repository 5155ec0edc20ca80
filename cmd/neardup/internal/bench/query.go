package bench

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
)

// builtReference returns the reference, which it builds unless it is there. It is nil if none
// is wanted.
func (r *run) builtReference(ctx context.Context) (*reference, error) {
	if r.compared != nil || r.NoReference {
		return r.compared, nil
	}
	r.Logf("sorting %d tables of %d fingerprints in memory", r.MaxDistance+1, r.Documents)
	begun := time.Now()
	var err error
	r.compared, err = newReference(ctx, r.stored, r.MaxDistance)
	r.sorting = time.Since(begun)
	return r.compared, err
}

func (r *run) reference(ctx context.Context) error {
	ref, err := r.builtReference(ctx)
	if ref == nil || err != nil {
		return err
	}
	r.figure("reference", "sorting the tables", r.sorting.Seconds(), "s")
	r.figure("reference", "memory", mib(ref.bytes()), "MiB")
	var times []float64
	one, timed := &candidate{run: ref.answer().each}, &candidate{run: ref.answer().timed(&times).each}
	if err := interleave(ctx, r.stored.queries(r.MaxDistance, streamReference), r.Time, one, timed); err != nil {
		return err
	}
	r.times("reference", one, nil, times)
	return nil
}

func (r *reference) answer() answer {
	var found []uint64
	return func(fp fingerprint.Fingerprint) error {
		found = r.query(uint64(fp), found[:0])
		return nil
	}
}

// times gives the figures of one thread: of rounds, and of queries timed one by one.
func (r *run) times(section string, c, ref *candidate, one []float64) {
	overMean, overMedian := 0.0, 0.0
	if ref != nil {
		overMean, overMedian = c.mean()/ref.mean(), c.over(ref)
	}
	r.Emit(Figure{section, "mean", c.mean(), "us", overMean})
	r.Emit(Figure{section, "median round", c.median(), "us", overMedian})
	p99 := quantile(one, 0.99)
	r.figure(section, "p50", quantile(one, 0.5), "us")
	r.figure(section, "p99", p99, "us")
	r.figure(section, "p99 over the mean", p99/c.mean(), "times")
}

func (r *run) query(ctx context.Context) error {
	if err := r.compacted(ctx); err != nil {
		return err
	}
	return withIndex(r.path("compacted"), r.options(), func(x *index.Index) error {
		stats := x.Stats()
		r.figure("query", "tables", float64(stats.Tables), "")
		r.figure("query", "probes a query", float64(stats.Probes), "")
		return r.queries(ctx, "query", x)
	})
}

// queries verifies an open index, warms it up and gives the times of its queries.
func (r *run) queries(ctx context.Context, section string, x *index.Index) error {
	ref, err := r.builtReference(ctx)
	if err != nil {
		return err
	}
	if err := r.verified(ctx, section, x, ref); err != nil {
		return err
	}
	if err := warmUp(ctx, x, r.stored.queries(r.MaxDistance, streamWarm), r.Time); err != nil {
		return err
	}
	var times []float64
	ask, threads := queryOf(ctx, x, 0), runtime.GOMAXPROCS(0)
	one := &candidate{run: ask.each}
	timed := &candidate{run: ask.timed(&times).each}
	parallel := &candidate{run: ask.onThreads(threads)}
	batch := &candidate{run: func(asked []fingerprint.Fingerprint) error { return queryBatch(ctx, x, asked) }}
	candidates := []*candidate{one, timed, parallel, batch}
	var compared *candidate
	if ref != nil {
		defer debug.SetGCPercent(gcPercentWithout(ref.bytes()))
		compared = &candidate{run: ref.answer().each}
		candidates = append(candidates, compared)
	}
	if err := interleave(ctx, r.stored.queries(r.MaxDistance, streamTimed), time.Duration(len(candidates))*r.Time, candidates...); err != nil {
		return err
	}
	r.times(section, one, compared, times)
	if compared != nil {
		r.figure(section, "the reference in the same rounds, mean", compared.mean(), "us")
	}
	stats, n := x.Stats(), float64(r.Documents)
	r.cached(section, stats)
	r.figure(section, "memory of filters, a fingerprint", float64(stats.FilterBytes)/n, "B")
	r.figure(section, "memory of directories, a fingerprint", float64(stats.DirectoryBytes)/n, "B")
	r.figure(section, fmt.Sprintf("%d threads", threads), 1/parallel.median(), "M/s")
	r.figure(section, fmt.Sprintf("%d threads over one", threads), 1/parallel.over(one), "times")
	r.figure(section, fmt.Sprintf("QueryBatch on %d cores", threads), 1/batch.median(), "M/s")
	return r.largeBatch(ctx, section, x, batch.median())
}

// largeBatch times a million queries that are asked at once, or ten times as many as there are
// fingerprints. It does not where that would take half a minute, at so many microseconds each.
func (r *run) largeBatch(ctx context.Context, section string, x *index.Index, us float64) error {
	n := min(1_000_000, 10*r.Documents)
	if us*float64(n) > 30e6 {
		return nil
	}
	asked := r.stored.queries(r.MaxDistance, streamBatch).next(n)
	begun := time.Now()
	if err := queryBatch(ctx, x, asked); err != nil {
		return err
	}
	r.figure(section, fmt.Sprintf("%d queries in one QueryBatch", n), time.Since(begun).Seconds(), "s")
	return nil
}

// cached gives how much of the tables was in memory, and warns if that was not all.
func (r *run) cached(section string, s index.Stats) {
	if s.Generation == 0 {
		return
	}
	r.figure(section, "packed blocks in memory", mib(int64(s.CachedBytes)), "MiB")
	if int64(s.CachedBytes) > r.CacheBytes*3/4*98/100 {
		r.Logf("%s: a cache of %d MiB does not hold all that was asked for: the times contain reads of files", section, r.CacheBytes>>20)
	}
}

// queryOf asks for fingerprints with a Shingle; 0: without.
func queryOf(ctx context.Context, x *index.Index, shingle fingerprint.Fingerprint) answer {
	return func(fp fingerprint.Fingerprint) error {
		_, err := x.Query(ctx, index.Query{Signature: fingerprint.Signature{Fingerprint: fp, Shingle: shingle}})
		return err
	}
}

// eachAnswer asks for many fingerprints at once.
func eachAnswer(ctx context.Context, x *index.Index, asked []fingerprint.Fingerprint, do func(query int, matches []index.Match) error) error {
	queries := make([]index.Query, len(asked))
	for i, fp := range asked {
		queries[i].Fingerprint = fp
	}
	for answer, err := range x.QueryBatch(ctx, queries) {
		if err == nil {
			err = do(answer.Query, answer.Matches)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func queryBatch(ctx context.Context, x *index.Index, asked []fingerprint.Fingerprint) error {
	return eachAnswer(ctx, x, asked, func(int, []index.Match) error { return nil })
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
func warmUp(ctx context.Context, x *index.Index, queries *queries, long time.Duration) error {
	const maxTimes = 30
	before, cached := math.Inf(1), uint64(0)
	for range maxTimes {
		c := &candidate{run: queryOf(ctx, x, 0).onThreads(runtime.GOMAXPROCS(0))}
		if err := interleave(ctx, queries, long, c); err != nil {
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
