package bench

import (
	"context"
	"errors"
	"os"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
)

// dedupDistance is the k that the subcommand dedup makes an index with.
const dedupDistance = 6

// dedup gives the speed of CheckAndAdd and of queries by the match rule of the
// subcommand dedup, first of the compacted index and then of what it has become.
func (r *run) dedup(ctx context.Context) error {
	c := &checked{r, "dedup", dedupDistance, collection{seed: r.Seed, n: r.Documents, shingles: true}}
	return errors.Join(c.dedup(ctx), os.RemoveAll(r.path(c.section)))
}

func (r *checked) dedup(ctx context.Context) error {
	if err := r.checks(ctx); err != nil {
		return err
	}
	return withIndex(r.path(r.section), r.options(r.k), func(x *index.Index) error {
		if err := warmUp(ctx, x, r.stored.questions(r.k, streamWarm), r.Time); err != nil {
			return err
		}
		// No stored document has this Shingle, or one near to it: the record of every
		// document within k is read, and none is a match.
		far := fingerprint.Fingerprint(collection{seed: r.Seed}.at(r.Documents))
		for _, c := range []struct {
			name      string
			questions *questions
			options   []index.QueryOption
		}{
			{"queries, nothing near", r.stored.strangers(streamTimed), []index.QueryOption{index.Shingle(far)}},
			{"queries, near to one whose Shingle is far", r.stored.near(r.k, streamTimed), []index.QueryOption{index.Shingle(far)}},
			{"queries, near to one, Shingles not looked at", r.stored.near(r.k, streamTimed), nil},
		} {
			if err := r.timeQueries(ctx, x, c.name, c.questions, c.options); err != nil {
				return err
			}
		}
		return nil
	})
}

func (r *checked) timeQueries(ctx context.Context, x *index.Index, name string, q *questions, options []index.QueryOption) error {
	answer := func(fp fingerprint.Fingerprint) error {
		_, err := x.Query(ctx, fp, options...)
		return err
	}
	var one latencies
	each, timed := &contender{run: eachOf(answer)}, &contender{run: one.timed(answer)}
	if err := takeTurns(ctx, q, r.Time, each, timed); err != nil {
		return err
	}
	r.figure(r.section, name+": mean", each.mean(), "us")
	r.figure(r.section, name+": p99", quantile(one, 0.99), "us")
	return nil
}
