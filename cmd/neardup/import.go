package main

import (
	"context"

	"github.com/neardup/neardup/compaction"
)

var importCommand = command{
	name:    "import",
	args:    "-index DIR [-k 3] [-analyzer NAME] INPUT...",
	summary: "load ready fingerprints in bulk: lines of fingerprint[TAB key], 8 bytes little-endian each (files named .u64le) or JSON lines (.jsonl); the index must not be in use",
	run:     runImport,
}

func runImport(ctx context.Context, c *call) error {
	inputs := c.inputFlags()
	indexes := c.indexFlags().makingFlags(importK)
	name := c.flags.String("analyzer", "", "`name` of the analyzer that made the fingerprints, as \"info\" shows it")
	memory := c.flags.Int64("memory", 1024, "memory for sorting in `MiB`")
	if err := c.parse(); err != nil {
		return err
	}
	if *memory < 1 {
		return usagef("-memory is %d MiB, want 1 or more", *memory)
	}
	if err := indexes.required(); err != nil {
		return err
	}
	reader, err := inputs.listReader(c.args)
	if err != nil {
		return err
	}
	o, err := indexes.options(*name)
	if err != nil {
		return err
	}
	if !c.given("expected-documents") {
		o.ExpectedDocuments = 0 // it will be known
	}
	progress, stop := c.startStages()
	report, err := compaction.Load(ctx, indexes.dir, c.fingerprints(ctx, reader), compaction.LoadOptions{
		Index:       *o,
		MemoryBytes: *memory << 20,
		Progress: func(p compaction.Progress) {
			if p.Stage != compaction.StageRead && progress != nil { // reading has a bar of its own
				progress(p)
			}
		},
	})
	stop()
	if err != nil {
		return err
	}
	c.logf("%d fingerprints stored in %.1f s; the index has %d documents", report.Loaded-min(report.Replaced, report.Loaded), report.Seconds, report.Documents)
	return nil
}
