package bench

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
)

const (
	// mostBatch is how many queries are asked at once, where there are a tenth as many
	// fingerprints at least.
	mostBatch = 1_000_000
	// batchVerified is how many of them are compared with Query.
	batchVerified = 2000
	// batchCold is how many are asked one by one of what is not in memory.
	batchCold = 1000
	// batchRounds is how often each way is timed; the median counts.
	batchRounds = 3
)

var batchMethods = []index.BatchMethod{index.QueryEach, index.QuerySorted}

// batch measures many queries at once of a compacted index: with all of it in memory,
// with none of it, and with a small cache.
func (r *run) batch(ctx context.Context) error {
	if err := r.compacted(ctx); err != nil {
		return err
	}
	n := min(mostBatch, 10*r.Documents)
	r.figure("batch", "queries at once", float64(n), "")
	questions := r.stored.questions(r.MaxDistance, streamBatch)
	err := withIndex(r.path("compacted"), r.options(r.MaxDistance), func(x *index.Index) error {
		if err := r.verifiedBatch(ctx, x, questions.next(batchVerified)); err != nil {
			return err
		}
		if err := r.batchRounds(ctx, x, questions, n, "warm", batchMethods); err != nil {
			return err
		}
		r.cached("batch", x.Stats())
		return nil
	})
	if err != nil {
		return err
	}
	if err := r.batchFresh(ctx, questions, n, "files not in memory", r.CacheBytes, true); err != nil {
		return err
	}
	return r.batchFresh(ctx, questions, n, fmt.Sprintf("cache of %d MiB", smallCache>>20), smallCache, false)
}

// verifiedBatch compares every way with Query.
func (r *run) verifiedBatch(ctx context.Context, x *index.Index, fps []fingerprint.Fingerprint) error {
	for _, method := range batchMethods {
		for answer, err := range x.QueryBatch(ctx, fps, index.By(method)) {
			if err != nil {
				return err
			}
			one, err := x.Query(ctx, fps[answer.Query])
			if err != nil {
				return err
			}
			if !reflect.DeepEqual(answer.Matches, one) {
				return fmt.Errorf("%w: %v by %s: %v, and %v one by one", ErrWrongAnswer, fps[answer.Query], method, answer.Matches, one)
			}
		}
	}
	r.figure("batch", "answers the same in every way, and by Query", float64(len(fps)), "queries")
	return nil
}

// batchRounds times the ways in turns and gives their medians. What the index would
// choose is told in the log.
func (r *run) batchRounds(ctx context.Context, x *index.Index, questions *questions, n int, name string, methods []index.BatchMethod) error {
	// Two rounds before fill the cache: the sorted way reads no more than it needs.
	for range 2 {
		if _, err := timeBatch(ctx, x, questions.next(n), index.QuerySorted); err != nil {
			return err
		}
	}
	seconds := make(map[index.BatchMethod][]float64)
	worked := make(map[index.BatchMethod][]float64)
	for range batchRounds {
		for _, method := range methods {
			fps := questions.next(n)
			before, _ := processorTime()
			s, err := timeBatch(ctx, x, fps, method)
			if err != nil {
				return err
			}
			seconds[method] = append(seconds[method], s)
			if after, ok := processorTime(); ok {
				worked[method] = append(worked[method], (after - before).Seconds())
			}
		}
	}
	for _, method := range methods {
		r.batchFigure(name, method, n, quantile(seconds[method], 0.5), quantile(seconds[index.QueryEach], 0.5))
		if len(worked[method]) > 0 {
			r.figure("batch", fmt.Sprintf("%s, %s, processor time of all cores", name, method), quantile(worked[method], 0.5), "s")
		}
	}
	return r.chosen(ctx, x, name, n)
}

func (r *run) chosen(ctx context.Context, x *index.Index, name string, n int) error {
	plan, err := x.PlanBatch(ctx, n)
	if err != nil {
		return err
	}
	r.logf("batch, %s: %v", name, plan)
	return nil
}

func (r *run) batchFigure(name string, method index.BatchMethod, n int, seconds, each float64) {
	r.figureOver("batch", fmt.Sprintf("%s, %s", name, method), seconds, "s", seconds/each)
	r.figure("batch", fmt.Sprintf("%s, %s, a query", name, method), 1e6*seconds/float64(n), "us")
}

// batchFresh opens the index anew for each way. One by one, only some are asked, and the
// time for all of them is reckoned from that.
func (r *run) batchFresh(ctx context.Context, questions *questions, n int, name string, cache int64, drop bool) error {
	o := r.options(r.MaxDistance)
	o.CacheBytes = cache
	each := 0.0
	for _, method := range batchMethods {
		if drop {
			err := dropPageCache(r.path("compacted"))
			if errors.Is(err, errors.ErrUnsupported) {
				r.logf("batch: on this system the files stay in the system's memory")
				return nil
			}
			if err != nil {
				return err
			}
		}
		err := withIndex(r.path("compacted"), o, func(x *index.Index) error {
			if method == index.QueryEach {
				if err := r.chosen(ctx, x, name, n); err != nil {
					return err
				}
				some := min(n, batchCold)
				s, err := timeBatch(ctx, x, questions.next(some), method)
				each = s * float64(n) / float64(some)
				r.batchFigure(fmt.Sprintf("%s, by %d of them", name, some), method, n, each, each)
				return err
			}
			s, err := timeBatch(ctx, x, questions.next(n), method)
			r.batchFigure(name, method, n, s, each)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// timeBatch returns the seconds that it takes to get all answers.
func timeBatch(ctx context.Context, x *index.Index, fps []fingerprint.Fingerprint, method index.BatchMethod) (float64, error) {
	begun := time.Now()
	for _, err := range x.QueryBatch(ctx, fps, index.By(method)) {
		if err != nil {
			return 0, err
		}
	}
	return time.Since(begun).Seconds(), nil
}
