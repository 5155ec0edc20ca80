package main

import "context"

var statsCommand = command{
	name:    "stats",
	args:    "-index DIR",
	summary: "print what there is to say of an index as a JSON object",
	run:     runStats,
}

func runStats(_ context.Context, c *call) error {
	indexes := c.indexFlags()
	if err := c.parse(); err != nil {
		return err
	}
	x, err := indexes.openReadOnly("")
	if err != nil {
		return err
	}
	out := newLines(c.out)
	out.write(x.Stats())
	if err := out.flush(); err != nil {
		return err
	}
	return x.Close()
}
