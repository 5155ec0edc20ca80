package main

import (
	"context"
	"errors"
)

var checkpointCommand = command{
	name:    "checkpoint",
	args:    "-index DIR DEST",
	summary: "make DEST, which must not exist or be empty, a copy of an index that is not in use",
	run:     runCheckpoint,
}

// checkpointLine says what was copied.
type checkpointLine struct {
	Checkpoint string `json:"checkpoint"`
	Documents  uint64 `json:"documents"`
	DiskBytes  uint64 `json:"diskBytes"` // of the index; linked files are counted
}

func runCheckpoint(ctx context.Context, c *call) error {
	indexes := c.indexFlags()
	if err := c.parse(); err != nil {
		return err
	}
	if len(c.args) != 1 {
		return usagef("want the folder to make the copy in, and nothing else")
	}
	x, err := indexes.openReadOnly("")
	if err != nil {
		return err
	}
	stats := x.Stats()
	if err := errors.Join(x.Checkpoint(ctx, c.args[0]), x.Close()); err != nil {
		return err
	}
	out := newLines(c.out)
	out.write(checkpointLine{c.args[0], stats.Documents, stats.DiskBytes})
	return out.flush()
}
