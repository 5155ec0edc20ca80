package main

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/neardup/neardup/store"
)

var versionCommand = command{
	name:    "version",
	summary: "print the version of neardup and of the formats that it reads",
	run:     runVersion,
}

func runVersion(_ context.Context, c *call) error {
	if err := c.parseFlags(); err != nil {
		return err
	}
	version := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		version = info.Main.Version
	}
	_, err := fmt.Fprintf(c.out, "neardup %s, index formats %d to %d\n", version, store.FormatOldest, store.Format)
	return err
}
