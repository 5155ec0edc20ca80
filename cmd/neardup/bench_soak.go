package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/neardup/neardup/cmd/neardup/bench"
)

// soakFlags say that and how the index is tried for a time against a model.
type soakFlags struct {
	call           *call
	time, interval time.Duration
	dir            string
	workers        int
	noSync         bool
}

func (c *call) soakFlags() *soakFlags {
	f := &soakFlags{call: c}
	c.flags.DurationVar(&f.time, "soak", 0, "instead of measuring, write, query, delete, expire, compact and take checkpoints for a `time`, and check every answer")
	c.flags.DurationVar(&f.interval, "interval", 0, "`time` between two lines of -soak (default: a 60th of it, at most 30s)")
	c.flags.StringVar(&f.dir, "index", "", "new `folder` for the index of -soak, which is kept (default: a temporary one)")
	c.flags.IntVar(&f.workers, "workers", 8, "`number` of calls at a time in -soak")
	c.flags.BoolVar(&f.noSync, "nosync", false, "in -soak, do not wait for the disk")
	return f
}

// given reports whether a flag was set that only -soak has.
func (f *soakFlags) given() bool {
	for _, name := range []string{"soak", "interval", "index", "workers", "nosync"} {
		if f.call.given(name) {
			return true
		}
	}
	return false
}

const (
	soakDocuments = 200_000
	soakCache     = 128 << 20
)

func (c *call) runSoak(ctx context.Context, f *soakFlags, measure bench.Options, asJSON bool) error {
	if c.given("only") || c.given("seconds") || c.given("reference") || c.given("dir") {
		return usagef("-only, -seconds, -reference and -dir are not for -soak")
	}
	o := bench.SoakOptions{
		Time: f.time, Interval: f.interval, Dir: f.dir, Workers: f.workers, NoSync: f.noSync,
		Documents: soakDocuments, MaxDistance: measure.MaxDistance, CacheBytes: soakCache, FilterBytes: measure.FilterBytes, Seed: measure.Seed,
	}
	if c.given("n") {
		o.Documents = measure.Documents
	}
	if c.given("cache") {
		o.CacheBytes = measure.CacheBytes
	}
	if err := o.Check(); err != nil {
		return usagef("%v", err)
	}
	begun := time.Now()
	o.Logf = func(format string, args ...any) {
		c.logf("%6.0f s: %s", time.Since(begun).Seconds(), fmt.Sprintf(format, args...))
	}
	report, err := bench.Soak(ctx, o)
	if report == nil {
		return err
	}
	if asJSON {
		return errors.Join(err, report.WriteJSON(c.out))
	}
	return errors.Join(err, report.WriteTable(c.out))
}
