package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"

	"github.com/neardup/neardup/internal/plan"
	"github.com/spf13/cobra"
)

func planCommand(a *app) *cobra.Command {
	c := a.command(&cobra.Command{
		Use:     "plan [flags]",
		Short:   "Print the designs of tables with estimated costs, and mark the chosen design",
		Example: `  neardup plan --documents 8e9 --max-distance 3`,
		Args:    noArgs,
	})
	n := c.countFlag("documents", "1e6", "`number` of documents")
	k := c.distanceFlag(importK, plan.MaxDistance, "largest Hamming `distance`")
	return c.runs(func(context.Context) error {
		choice, err := plan.Choose(*k, *n)
		if err != nil {
			return err
		}
		fmt.Fprintf(c.out, "k = %d, %g documents\n\n", *k, float64(*n))
		if err := printDesigns(c.out, *k, *n, choice.Design); err != nil {
			return err
		}
		const threshold = 10 // log2 of the candidates of a probe
		fmt.Fprintf(c.out, "\noptimum X(64, %d, %.4g) of the paper (section 3.1.2), at most 2^%d "+
			"candidates per probe: %g tables\n",
			*k, math.Log2(float64(*n)), threshold, plan.OptimalTables(64, *k,
				math.Log2(float64(*n)), threshold))
		return nil
	})
}

// printDesigns prints a line per design. "GB of memory" counts filters and directories.
func printDesigns(out io.Writer, k int, n int64, chosen string) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w,
		strings.Join([]string{"design", "tables", "prefixes", "radii", "probes",
			"filter look-ups", "candidates",
			"GB of tables", "GB of filters", "GB of memory", "us warm", "us from disk", "", ""},
			"\t"))
	for _, name := range plan.Designs(k) {
		p, err := plan.Named(name, k)
		if err != nil {
			return err
		}
		e, mark := p.Estimate(n), ""
		if name == chosen {
			mark = "chosen"
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%d\t%d\t%.4g\t%.4g\t%.3g\t%.3g\t%.4g\t%.4g\t%s\t\n",
			name, len(e.Tables),
			span(p.Tables, func(t plan.Table) int { return t.Prefix }),
			span(p.Tables, func(t plan.Table) int { return t.Radius }),
			e.Probes, e.FilterLookups, e.Candidates,
			(e.TableBytes+e.PostingBytes)/1e9, e.FilterBytes/1e9, e.MemoryBytes()/1e9, e.Warm/1e3,
			e.Disk/1e3, mark)
	}
	return w.Flush()
}

// span formats the smallest and the largest value of the tables.
func span(tables []plan.Table, of func(plan.Table) int) string {
	low, high := of(tables[0]), of(tables[0])
	for _, t := range tables {
		low, high = min(low, of(t)), max(high, of(t))
	}
	if low == high {
		return fmt.Sprint(low)
	}
	return fmt.Sprintf("%d..%d", low, high)
}
