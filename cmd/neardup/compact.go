package main

import (
	"context"

	"github.com/neardup/neardup/compaction"
)

var compactCommand = command{
	name:    "compact",
	args:    "-index DIR",
	summary: "give back the space of what was deleted or replaced; the index must not be in use",
	run:     runCompact,
}

func runCompact(ctx context.Context, c *call) error {
	indexes := c.indexFlags()
	if err := c.parse(); err != nil {
		return err
	}
	if err := indexes.required(); err != nil {
		return err
	}
	report, err := compaction.Run(ctx, indexes.dir, compaction.Options{CacheBytes: indexes.cache << 20})
	if err != nil {
		return err
	}
	out := newLines(c.out)
	out.write(report)
	return out.flush()
}
