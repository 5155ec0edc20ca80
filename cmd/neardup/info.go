package main

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"

	"github.com/neardup/neardup/index"
)

var infoCommand = command{
	name:    "info",
	args:    "-index DIR",
	summary: "print what an index was made with and what is in it, for people",
	run:     runInfo,
}

func runInfo(_ context.Context, c *call) error {
	indexes := c.indexFlags()
	if err := c.parseFlags(); err != nil {
		return err
	}
	x, err := indexes.openReadOnly("")
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	describe(w, x.Stats(), x.Plan())
	return errors.Join(w.Flush(), x.Close())
}

func describe(w *tabwriter.Writer, s index.Stats, p *index.Plan) {
	analyzer := s.Analyzer
	if analyzer == "" {
		analyzer = "not known"
	}
	fmt.Fprintf(w, "format\t%d\n", s.Format)
	fmt.Fprintf(w, "largest distance\tk = %d\n", s.MaxDistance)
	fmt.Fprintf(w, "analyzer\t%s\n", analyzer)
	fmt.Fprintf(w, "documents\t%d (%d of them with nothing but a fingerprint)\n", s.Documents, s.Bare)
	fmt.Fprintf(w, "ever added\t%d\n", s.NextID-1)
	fmt.Fprintf(w, "on disk\t%d bytes\n", s.DiskBytes)
	if s.Generation > 0 {
		fmt.Fprintf(w, "packed\t%d fingerprints, %d times compacted or loaded\n", s.Packed, s.Generation)
	} else {
		fmt.Fprintf(w, "packed\tnothing: never compacted\n")
	}
	fmt.Fprintf(w, "tables\t%d\n", s.Tables)
	fmt.Fprintf(w, "a query\t%d probes, %.1f candidates expected among %d uniform fingerprints\n", s.Probes, p.Candidates(float64(s.Documents)), s.Documents)
	if s.Outgrown != "" {
		fmt.Fprintf(w, "outgrown\t%s; \"neardup compact -plan auto\" rewrites it\n", s.Outgrown)
	}
	for i, t := range p.Tables {
		fmt.Fprintf(w, "table %d\tprefix %d, radius %d, bits %s\n", i, t.Prefix, t.Radius, t.Permutation)
	}
}
