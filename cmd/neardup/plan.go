package main

import (
	"context"
	"fmt"
	"math"
	"text/tabwriter"

	"github.com/neardup/neardup/index"
)

var planCommand = command{
	name:    "plan",
	args:    "[-n 1e6] [-k 3] [-threshold 10]",
	summary: "print the designs of tables, what they cost, and which one an index would choose",
	run:     runPlan,
}

// entryBytes is what an entry takes in a compacted index: 1 M random fingerprints
// imported with -design 4 and with -design 10, both compacted, differ by six tables
// and 63.8 MB. Before compaction it is up to twice as much.
const entryBytes = 10.6

func runPlan(_ context.Context, c *call) error {
	n := c.flags.Float64("n", 1e6, "`number` of documents")
	k := c.flags.Int("k", 3, "largest Hamming `distance`")
	threshold := c.flags.Float64("threshold", 10, "for the optimum: `log2` of the candidates that a probe may return")
	if err := c.parse(); err != nil {
		return err
	}
	if *k < 0 || *k > index.MaxDistanceLimit {
		return usagef("-k is %d, want 0 to %d", *k, index.MaxDistanceLimit)
	}
	if !(*n >= 1) || *n > 1e15 || math.IsNaN(*threshold) {
		return usagef("-n is %g, want 1 to 1e15", *n)
	}
	chosen, err := index.ChoosePlan(*k, int64(*n))
	if err != nil {
		return err
	}
	fmt.Fprintf(c.out, "k = %d, %g documents\n\n", *k, *n)
	w := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "design\ttables\tprefixes\tradius\tprobes\tcandidates a query\tGB of tables\tms a query\t\t")
	for _, d := range index.Designs() {
		p, err := d.Plan(*k)
		if err != nil {
			return err
		}
		mark := ""
		if p.String() == chosen.String() {
			mark = "chosen"
		}
		low, high, radius := prefixes(p)
		fmt.Fprintf(w, "%s\t%d\t%d..%d\t%d\t%d\t%.4g\t%.3g\t%.3g\t%s\t\n", d.Name, len(p.Tables), low, high, radius, p.Probes(),
			p.Candidates(*n), float64(len(p.Tables))**n*entryBytes/1e9, p.Cost(*n)/1e6, mark)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(c.out, "\nchosen: the least time a query among the designs of at most 32 tables\n")
	fmt.Fprintf(c.out, "optimum X(64, %d, %.4g) of the paper (section 3.1.2), at most 2^%g candidates a probe: %g tables\n",
		*k, math.Log2(*n), *threshold, index.OptimalTables(64, *k, math.Log2(*n), *threshold))
	return nil
}

// prefixes returns the shortest and the longest prefix, and the largest radius.
func prefixes(p *index.Plan) (low, high, radius int) {
	low = 64
	for _, t := range p.Tables {
		low, high, radius = min(low, t.Prefix), max(high, t.Prefix), max(radius, t.Radius)
	}
	return low, high, radius
}
