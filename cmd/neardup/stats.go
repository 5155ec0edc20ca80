package main

import (
	"context"
	"errors"

	"github.com/neardup/neardup/index"
)

var statsCommand = command{
	name:    "stats",
	args:    "-index DIR [-plot DIR|FILE.svg]",
	summary: "print what there is to say of an index as a JSON object",
	run:     runStats,
}

// statsLine is the output.
type statsLine struct {
	index.Stats
	Distribution *distribution `json:"distribution,omitempty"` // with -plot
}

func runStats(ctx context.Context, c *call) error {
	indexes := c.indexFlags()
	plot := c.flags.String("plot", "", "draw how the fingerprints are distributed, into `FILE`-leading.svg and FILE-buckets.svg (or .png), or leading.svg and buckets.svg in a folder; the numbers are printed too")
	if err := c.parseFlags(); err != nil {
		return err
	}
	pictures, err := distributionFiles(*plot)
	if err != nil {
		return err
	}
	x, err := indexes.openReadOnly("")
	if err != nil {
		return err
	}
	line := statsLine{Stats: x.Stats()}
	if *plot != "" {
		if line.Distribution, err = distributionOf(ctx, x); err == nil {
			err = line.Distribution.draw(pictures)
		}
	}
	if err != nil {
		return errors.Join(err, x.Close())
	}
	out := newLines(c.out)
	out.write(line)
	return errors.Join(out.flush(), x.Close())
}
