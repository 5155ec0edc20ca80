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
	if r.compared, err = newReference(ctx, r.stored, r.MaxDistance); err == nil {
		r.figure("reference", "sorting the tables", time.Since(begun).Seconds(), "s")
		r.figure("reference", "memory", mib(r.compared.bytes()), "MiB")
	}
	return r.compared, err
}

func (r *reference) answer() answer {
	var found []uint64
	return func(fp fingerprint.Fingerprint) error {
		found = r.query(uint64(fp), found[:0])
		return nil
	}
}

func (r *run) query(ctx context.Context) error {
	if err := r.compacted(ctx); err != nil {
		return err
	}
	return withIndex(r.path("compacted"), r.options(), func(x *index.Index) error { return r.queries(ctx, "query", x) })
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
	overMean, overMedian := 0.0, 0.0
	if compared != nil {
		overMean, overMedian = one.mean()/compared.mean(), one.over(compared)
		r.figure(section, "the reference in the same rounds, mean", compared.mean(), "us")
	}
	r.Emit(Figure{section, "mean", one.mean(), "us", overMean})
	r.Emit(Figure{section, "median round", one.median(), "us", overMedian})
	r.figure(section, "p99", quantile(times, 0.99), "us")
	stats, n := x.Stats(), float64(r.Documents)
	if r.figure(section, "packed blocks in memory", mib(int64(stats.CachedBytes)), "MiB"); stats.CacheShort != "" {
		r.Logf("%s: %s", section, stats.CacheShort)
	}
	if resident := statusBytes("VmRSS"); resident > 0 && ref == nil {
		r.figure(section, "resident memory of the process, no collection forced", mib(resident), "MiB")
	}
	r.figure(section, "memory of filters, a fingerprint", float64(stats.FilterBytes)/n, "B")
	r.figure(section, "memory of directories, a fingerprint", float64(stats.DirectoryBytes)/n, "B")
	r.figure(section, fmt.Sprintf("%d threads", threads), 1/parallel.median(), "M/s")
	r.figure(section, fmt.Sprintf("QueryBatch on %d cores", threads), 1/batch.median(), "M/s")
	return nil
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
