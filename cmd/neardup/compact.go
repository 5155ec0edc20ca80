package main

import (
	"context"

	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/index"
)

var compactCommand = command{
	name:    "compact",
	args:    "-index DIR [-plan auto|DESIGN] [-k K]",
	summary: "pack the tables, give back the space of what was deleted, or change the plan; the index must not be in use",
	run:     runCompact,
}

func runCompact(ctx context.Context, c *call) error {
	indexes := c.indexFlags()
	plan := c.flags.String("plan", "", "put the index under the plan of a `design`, or under the best one for its documents: auto")
	k := c.flags.Int("k", 0, "largest Hamming `distance` under the new plan (default: as it is)")
	memory := c.flags.Int64("memory", 1024, "memory for sorting in `MiB`")
	if err := c.parseFlags(); err != nil {
		return err
	}
	if err := indexes.required(); err != nil {
		return err
	}
	if *memory < 1 {
		return usagef("-memory is %d MiB, want 1 or more", *memory)
	}
	if c.given("k") && *plan == "" {
		return usagef("-k is fixed by the plan; change it together with -plan")
	}
	opts := compaction.Options{CacheBytes: indexes.cache << 20, MemoryBytes: *memory << 20}
	if *plan != "" {
		var err error
		if opts.Plan, err = newPlan(c, indexes, *plan, *k); err != nil {
			return err
		}
	}
	var stop func()
	opts.Progress, stop = c.startStages()
	report, err := compaction.Run(ctx, indexes.dir, opts)
	stop()
	if err != nil {
		return err
	}
	out := newLines(c.out)
	out.write(report)
	return out.flush()
}

// newPlan returns the plan that the index is to be put under.
func newPlan(c *call, indexes *indexFlags, name string, k int) (*index.Plan, error) {
	x, err := indexes.openReadOnly("")
	if err != nil {
		return nil, err
	}
	stats := x.Stats()
	if err := x.Close(); err != nil {
		return nil, err
	}
	if !c.given("k") {
		k = stats.MaxDistance
	}
	if k < 0 || k > index.MaxDistanceLimit {
		return nil, usagef("-k is %d, want 0 to %d", k, index.MaxDistanceLimit)
	}
	if name == "auto" {
		return index.ChoosePlan(k, int64(max(stats.Documents, 1)))
	}
	d, err := index.DesignNamed(name)
	if err != nil {
		return nil, usagef("-plan: %v", err)
	}
	return d.Plan(k)
}
