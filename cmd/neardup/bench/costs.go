package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/neardup/neardup/index"
)

// costPlan is a plan that isolates some of the costs. It has one table, which finds
// everything within k bits whatever its prefix is.
type costPlan struct {
	k, prefix int
}

// The costs are found from the times of uniform queries that differ in one thing only.
const (
	// With a prefix that no two fingerprints are likely to share, a query with k = 0
	// takes one look-up in the filter or, without filter, one probe that finds nothing;
	// one with k = 1 takes a look-up for each of its bits but those that share a word.
	longPrefix = 44
	// With a short one, a probe returns about so many.
	rangeCandidates = 4096
	// liveDocuments bounds the indexes that are filled one by one.
	liveDocuments = 500_000
	coldQueries   = 200
)

func rangePlan(n int) costPlan {
	return costPlan{0, max(1, int(math.Log2(float64(n)/rangeCandidates)))}
}

func (p costPlan) plan() (*index.Plan, error) {
	return index.ParsePlan(p.String())
}

func (p costPlan) String() string { return fmt.Sprintf("k=%d 0-63/%d~%d", p.k, p.prefix, p.k) }

// noFilters as FilterBytes makes every probe look at its table.
const noFilters = -1

// timesOf are nanoseconds a query.
type timesOf struct {
	filtered float64 // in memory, with filters
	probed   float64 // in memory, without
	cold     float64 // not in memory, without; 0 if that cannot be had
	estimate index.Estimate
}

// costs measures the constants of the planner.
func (r *run) costs(ctx context.Context) error {
	r.compared = nil // it is not needed any more, and large
	packed := r.stored
	live := collection{seed: r.Seed, n: min(r.Documents, liveDocuments)}
	var point, star, wide, livePoint, liveWide timesOf
	for _, m := range []struct {
		times  *timesOf
		plan   costPlan
		stored collection
		load   bool
	}{
		{&point, costPlan{0, longPrefix}, packed, true},
		{&star, costPlan{1, longPrefix}, packed, true},
		{&wide, rangePlan(packed.n), packed, true},
		{&livePoint, costPlan{0, longPrefix}, live, false},
		{&liveWide, rangePlan(live.n), live, false},
	} {
		r.logf("costs: an index of %d fingerprints with the plan %v", m.stored.n, m.plan)
		err := r.timePlan(ctx, m.times, m.plan, m.stored, m.load)
		if err := errors.Join(err, os.RemoveAll(r.path("costs"))); err != nil {
			return err
		}
	}

	var c index.Costs
	c.FilterLookup = max(0, star.filtered-point.filtered) / float64(star.estimate.FilterLookups-1)
	c.Query = max(0, point.filtered-c.FilterLookup)
	c.PackedProbe = max(0, point.probed-c.Query)
	c.PackedCandidate = max(0, wide.probed-point.probed) / wide.estimate.Candidates
	c.LiveSeek = max(0, livePoint.probed-c.Query)
	c.LiveCandidate = max(0, liveWide.probed-livePoint.probed) / liveWide.estimate.Candidates
	if point.cold > 0 {
		c.DiskRead = max(0, point.cold-point.probed)
		c.DiskByte = max(0, wide.cold-wide.probed-c.DiskRead) / (wide.estimate.Candidates * entropy(float64(packed.n)) / 8)
	}
	return r.costFigures(c)
}

func (r *run) costFigures(c index.Costs) error {
	r.report.Costs = &c
	for _, f := range []struct {
		name  string
		value float64
	}{
		{"a query without probes", c.Query},
		{"a look-up in a filter", c.FilterLookup},
		{"a probe of a packed table", c.PackedProbe},
		{"a candidate in a packed table", c.PackedCandidate},
		{"a seek in a live table", c.LiveSeek},
		{"a candidate in a live table", c.LiveCandidate},
		{"a read of what is not in memory", c.DiskRead},
		{"a byte of it", c.DiskByte},
	} {
		r.figure("costs", f.name, f.value, "ns")
	}
	choice, err := index.ChoosePlanWithin(r.MaxDistance, int64(r.Documents), index.Limits{}, c)
	if err != nil {
		return err
	}
	r.figure("costs", "a query, as the planner reckons with these", choice.Estimate.Warm/1e3, "us")
	r.figure("costs", "tables of the plan that it chooses with these", float64(len(choice.Plan.Tables)), "")
	return nil
}

// timePlan makes an index, loaded or added to, and takes the times of its queries.
func (r *run) timePlan(ctx context.Context, t *timesOf, plan costPlan, c collection, load bool) error {
	p, err := plan.plan()
	if err != nil {
		return err
	}
	t.estimate = p.Estimate(int64(c.n), index.Costs{}, 0)
	open := r.options(plan.k)
	open.Plan = p
	if load {
		_, err = r.do(ctx, task{Name: "load", Dir: "costs", MaxDistance: plan.k, Plan: plan.String()})
	} else {
		err = withIndex(r.path("costs"), open, func(x *index.Index) error { return add(ctx, x, c, 0, c.n, false, nil) })
	}
	if err != nil {
		return err
	}
	if t.filtered, err = r.warmTime(ctx, open); err != nil {
		return err
	}
	open.FilterBytes = noFilters
	if t.probed, err = r.warmTime(ctx, open); err != nil || !load {
		return err
	}
	t.cold, err = r.coldTime(ctx, open)
	return err
}

// warmTime returns the nanoseconds of a uniform query, in memory.
func (r *run) warmTime(ctx context.Context, open *index.Options) (ns float64, err error) {
	err = withIndex(r.path("costs"), open, func(x *index.Index) error {
		questions := r.stored.strangers(streamWarm)
		if err := warmUp(ctx, x, questions, r.Time); err != nil {
			return err
		}
		c := &contender{run: eachOf(indexAnswer(ctx, x))}
		err := takeTurns(ctx, questions, r.Time, c)
		ns = 1e3 * c.median()
		return err
	})
	return ns, err
}

// coldTime returns the nanoseconds of one of the first queries, 0 where the system
// does not let go of the files.
func (r *run) coldTime(ctx context.Context, open *index.Options) (ns float64, err error) {
	if err := dropPageCache(r.path("costs")); err != nil {
		if errors.Is(err, errors.ErrUnsupported) {
			return 0, nil
		}
		return 0, err
	}
	err = withIndex(r.path("costs"), open, func(x *index.Index) error {
		questions := r.stored.strangers(streamCold).next(coldQueries)
		begun := time.Now()
		err := eachOf(indexAnswer(ctx, x))(questions)
		ns = float64(time.Since(begun).Nanoseconds()) / coldQueries
		return err
	})
	return ns, err
}
