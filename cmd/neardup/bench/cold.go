package bench

import (
	"context"
	"errors"
	"time"

	"github.com/neardup/neardup/index"
)

// coldQuestions is how many queries count as the first ones.
const coldQuestions = 1000

func (r *run) cold(ctx context.Context) error {
	if err := r.compacted(ctx); err != nil {
		return err
	}
	if err := r.firstQueries(ctx, "opened again"); err != nil {
		return err
	}
	err := dropPageCache(r.path("compacted"))
	if errors.Is(err, errors.ErrUnsupported) {
		r.logf("cold: on this system the files stay in the system's memory")
		return nil
	}
	if err != nil {
		return err
	}
	return r.firstQueries(ctx, "files not in memory")
}

// firstQueries opens the index and gives the times of the first queries.
func (r *run) firstQueries(ctx context.Context, name string) error {
	questions := r.stored.questions(r.MaxDistance, streamCold)
	if name == "opened again" {
		questions.next(coldQuestions) // others than those of the next time
	}
	begun := time.Now()
	return withIndex(r.path("compacted"), r.options(r.MaxDistance), func(x *index.Index) error {
		var one latencies
		answer := one.timed(indexAnswer(ctx, x))
		if err := answer(questions.next(1)); err != nil {
			return err
		}
		r.figure("cold", name+": open and the first answer", time.Since(begun).Seconds(), "s")
		if err := answer(questions.next(coldQuestions - 1)); err != nil {
			return err
		}
		sum := 0.0
		for _, us := range one {
			sum += us
		}
		r.figure("cold", name+": mean of the first 1,000", sum/coldQuestions, "us")
		r.figure("cold", name+": p50 of the first 1,000", quantile(one, 0.5), "us")
		r.figure("cold", name+": p99 of the first 1,000", quantile(one, 0.99), "us")
		return nil
	})
}
