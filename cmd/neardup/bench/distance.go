package bench

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/neardup/neardup/index"
)

// distance gives the times of queries at another k, in an index made for it.
func (r *run) distance(ctx context.Context, k int) error {
	r.compared = nil // it is not needed any more, and large
	section := fmt.Sprintf("k%d", k)
	r.logf("loading %d fingerprints for k = %d", r.Documents, k)
	o, err := r.do(ctx, task{Name: "load", Dir: section, MaxDistance: k})
	if err != nil {
		return err
	}
	r.loaded(section, &o)
	err = withIndex(r.path(section), r.options(k), func(x *index.Index) error {
		s := x.Stats()
		r.figure(section, "tables", float64(s.Tables), "")
		r.figure(section, "probes a query", float64(s.Probes), "")
		r.figure(section, "candidates a query, expected", x.Plan().Candidates(float64(r.Documents)), "")
		if err := r.verified(ctx, section, x, r.stored, k); err != nil {
			return err
		}
		answer := indexAnswer(ctx, x)
		if err := warmUp(ctx, x, r.stored.questions(k, streamWarm), r.Time); err != nil {
			return err
		}
		var one latencies
		each, timed := &contender{run: eachOf(answer)}, &contender{run: one.timed(answer)}
		if err := takeTurns(ctx, r.stored.questions(k, streamTimed), 2*r.Time, each, timed); err != nil {
			return err
		}
		r.times(section, each, nil, one)
		r.cached(section, x.Stats())
		return nil
	})
	return errors.Join(err, os.RemoveAll(r.path(section)))
}
