package main

import (
	"context"

	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/store"
)

var repairCommand = command{
	name:    "repair",
	args:    "-index DIR [-design DESIGN -k K] [DEST]",
	summary: "make a whole index of what can be read of a damaged one, in its place or in DEST; the damaged one is kept",
	run:     runRepair,
}

func runRepair(ctx context.Context, c *call) error {
	indexes := c.indexFlags()
	design := c.flags.String("design", "", "`design` that the index was made with, if its own can not be read any more")
	k := c.flags.Int("k", 3, "largest Hamming `distance` that goes with -design")
	memory := c.flags.Int64("memory", 1024, "memory for sorting in `MiB`")
	if err := c.parse(); err != nil {
		return err
	}
	if err := indexes.required(); err != nil {
		return err
	}
	if len(c.args) > 1 {
		return usagef("want one folder to make the repaired index in, or none")
	}
	if *memory < 1 {
		return usagef("-memory is %d MiB, want 1 or more", *memory)
	}
	if c.given("k") && *design == "" {
		return usagef("-k goes with -design")
	}
	opts := compaction.RepairOptions{CacheBytes: indexes.cache << 20, MemoryBytes: *memory << 20}
	if len(c.args) == 1 {
		opts.Dest = c.args[0]
	}
	if *design != "" {
		d, err := index.DesignNamed(*design)
		if err != nil {
			return usagef("-design: %v", err)
		}
		if opts.Plan, err = d.Plan(*k); err != nil {
			return usagef("-design: %v", err)
		}
	}
	told := 0
	opts.Fault = func(f store.Fault) {
		if told++; told <= 20 {
			c.logf("%s %q: %v", f.Keyspace, f.Key, f.Err)
		}
	}
	var stop func()
	opts.Progress, stop = c.startStages()
	report, err := compaction.Repair(ctx, indexes.dir, opts)
	stop()
	if told > 20 {
		c.logf("and %d faults more", told-20)
	}
	if err != nil {
		return err
	}
	c.logf("%d documents are in %s; the damaged index is %s, and can be removed", report.Documents, report.Index, report.Kept)
	out := newLines(c.out)
	out.write(report)
	return out.flush()
}
