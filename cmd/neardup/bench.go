package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/neardup/neardup/cmd/neardup/internal/bench"
)

var benchCommand = command{
	name:    "bench",
	args:    "[-n 10e6] [-k 3] [-only SECTION,...] [-json]",
	summary: "measure the index on this machine, against sorted arrays in memory",
	run:     runBench,
}

func runBench(ctx context.Context, c *call) error {
	var o bench.Options
	names, summaries := bench.Sections()
	sections := "`sections` to measure, with commas between; without it, all:"
	for i := range names {
		sections += fmt.Sprintf("\n  %-10s %s", names[i], summaries[i])
	}
	n := c.flags.Float64("n", 10e6, "`number` of fingerprints")
	only := c.flags.String("only", "", sections)
	seconds := c.flags.Float64("seconds", 3, "about how long a comparison takes, in `seconds`")
	cache := c.mebibytesFlag("cache", 1024, "memory for the cache of an index in `MiB`; what is to be warm must fit in half of it")
	filter := c.flags.Int64("filter", 0, "memory for the prefix filters of an index in `MiB`; 0: the default of an index, below 0: none")
	reference := c.flags.Bool("reference", true, "compare with sorted arrays in memory, 8 (k+1) bytes a fingerprint")
	c.flags.IntVar(&o.MaxDistance, "k", 3, "largest Hamming `distance`")
	c.flags.BoolVar(&o.Shingles, "shingles", false, "give the documents second fingerprints, as dedup does; its k is 6")
	c.flags.StringVar(&o.Dir, "dir", "", "`folder` for the temporary indexes (default: the system's)")
	c.flags.Uint64Var(&o.Seed, "seed", 1, "`seed` of the data")
	asJSON := c.flags.Bool("json", false, "print one JSON object instead of a table")
	if err := c.parseFlags(); err != nil {
		return err
	}
	if !(*n >= 1) || !(*seconds >= 0) {
		return usagef("-n and -seconds must be positive")
	}
	o.Documents, o.Time = int(min(*n, 1e15)), time.Duration(*seconds*float64(time.Second))
	o.CacheBytes, o.FilterBytes, o.NoReference = cache.bytes(), *filter<<20, !*reference
	if *only != "" {
		o.Only = strings.Split(*only, ",")
	}
	if err := o.Check(); err != nil {
		return usagef("%v", err)
	}
	begun := time.Now()
	o.Logf = func(format string, args ...any) {
		c.logf("%6.1f s: %s", time.Since(begun).Seconds(), fmt.Sprintf(format, args...))
	}
	if !*asJSON {
		fmt.Fprintln(c.out, bench.Title(o))
		o.Emit = func(f bench.Figure) { fmt.Fprintln(c.out, f) }
	}
	report, err := bench.Run(ctx, o)
	if *asJSON && report != nil {
		err = errors.Join(err, report.WriteJSON(c.out))
	}
	return err
}
