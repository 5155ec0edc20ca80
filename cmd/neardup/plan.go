package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/neardup/neardup/index/plan"
)

var planCommand = command{
	name:    "plan",
	args:    "[-n 1e6] [-k 3] [-tables N] [-disk GB] [-ram GB] [-threshold 10] [-scale]",
	summary: "print the designs of tables, what they cost, and which one an index would choose",
	run:     runPlan,
}

func runPlan(_ context.Context, c *call) error {
	n := c.flags.Float64("n", 1e6, "`number` of documents")
	k := c.distanceFlag(importK, "largest Hamming `distance`")
	tables := c.intFlag("tables", 0, 1, math.MaxInt, "largest `number` of tables (default 32)")
	disk := c.flags.Float64("disk", 0, "most `GB` on disk, compacted, without the documents' records (default no limit)")
	ram := c.flags.Float64("ram", 0, "`GB` of memory: what does not fit is read from disk (default no limit)")
	scale := c.scaleFlags()
	threshold := c.flags.Float64("threshold", 10, "for the optimum: `log2` of the candidates that a probe may return")
	if err := c.parseFlags(); err != nil {
		return err
	}
	if !(*n >= 1) || *n > 1e15 || math.IsNaN(*threshold) {
		return usagef("-n is %g, want 1 to 1e15", *n)
	}
	limits := plan.Limits{Tables: *tables}
	var err error
	if limits.DiskBytes, err = gigabytes("disk", *disk); err != nil {
		return err
	}
	if limits.RAMBytes, err = gigabytes("ram", *ram); err != nil {
		return err
	}
	measured := plan.DefaultCosts()
	if scale.wanted {
		if err := scale.check(); err != nil {
			return err
		}
		return scale.print(c, *k, int64(*n), measured, limits.RAMBytes)
	}
	choice, refused := plan.Choose(*k, int64(*n), limits, measured)
	if refused != nil && !errors.Is(refused, plan.ErrUnusable) {
		return refused
	}
	fmt.Fprintf(c.out, "k = %d, %g documents\n\n", *k, *n)
	if err := printDesigns(c, *k, int64(*n), limits, measured, choice); err != nil {
		return err
	}
	if refused != nil { // the table shows how far off the limits are
		return refused
	}
	fmt.Fprintf(c.out, "\nchosen: %s\n", choice.Reason)
	fmt.Fprintf(c.out, "optimum X(64, %d, %.4g) of the paper (section 3.1.2), at most 2^%g candidates a probe: %g tables\n",
		*k, math.Log2(*n), *threshold, optimalTables(64, *k, math.Log2(*n), *threshold))
	return nil
}

// gigabytes reads a limit, 0 for none.
func gigabytes(name string, gb float64) (int64, error) {
	if !(gb >= 0) || gb > 1e9 {
		return 0, usagef("-%s is %g, want GB from 0 to 1e9", name, gb)
	}
	return int64(gb * 1e9), nil
}

// printDesigns prints a line a design. Memory is that of the filters and directories,
// without blocks.
func printDesigns(c *call, k int, n int64, limits plan.Limits, costs plan.Costs, choice plan.Choice) error {
	w := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', tabwriter.AlignRight)
	columns := []string{"design", "tables", "prefixes", "radii", "probes", "filter look-ups", "candidates",
		"GB of tables", "GB of filters", "GB of memory", "us warm", "us from disk"}
	if limits.RAMBytes > 0 {
		columns = append(columns, fmt.Sprintf("us with %g GB", float64(limits.RAMBytes)/1e9))
	}
	fmt.Fprintf(w, "%s\t\t\n", strings.Join(columns, "\t"))
	plans, err := plansFor(k)
	if err != nil {
		return err
	}
	for _, p := range plans {
		e := p.Estimate(n, costs, limits.RAMBytes)
		prefixes, radii := ranges(p.Plan)
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%d\t%d\t%.4g\t%.4g\t%.3g\t%.3g\t%.4g\t%.4g\t", p.names,
			len(e.Tables), prefixes, radii, e.Probes, e.FilterLookups, e.Candidates,
			(e.TableBytes+e.PostingBytes)/1e9, e.FilterBytes/1e9, e.MemoryBytes()/1e9, e.Warm/1e3, e.Disk/1e3)
		if limits.RAMBytes > 0 {
			fmt.Fprintf(w, "%.4g\t", e.Query/1e3)
		}
		mark := ""
		if p.design == choice.Design {
			mark = "chosen"
		}
		fmt.Fprintf(w, "%s\t\n", mark)
	}
	return w.Flush()
}

// namedPlan is the plan of a design.
type namedPlan struct {
	*plan.Plan
	design string
	names  string // with the numbers that stand for the same plan
}

// plansFor returns the plans of all designs for k.
func plansFor(k int) ([]namedPlan, error) {
	aliases := map[string][]string{} // by plan
	for _, name := range []string{"2", "3", "4"} {
		p, err := plan.Named(name, k)
		if err != nil {
			return nil, err
		}
		aliases[p.String()] = append(aliases[p.String()], name)
	}
	var plans []namedPlan
	for _, name := range plan.Designs(k) {
		p, err := plan.Named(name, k)
		if err != nil {
			return nil, err
		}
		plans = append(plans, namedPlan{p, name, strings.Join(append(aliases[p.String()], name), ", ")})
	}
	return plans, nil
}

// ranges returns the least and the largest prefix, and the same of the radii.
func ranges(p *plan.Plan) (prefixes, radii string) {
	var prefix, radius []int
	for _, t := range p.Tables {
		prefix, radius = append(prefix, t.Prefix), append(radius, t.Radius)
	}
	return span(prefix), span(radius)
}

func span(values []int) string {
	low, high := slices.Min(values), slices.Max(values)
	if low == high {
		return fmt.Sprint(low)
	}
	return fmt.Sprintf("%d..%d", low, high)
}

// optimalTables is the paper's X(f, k, d) (section 3.1.2): the least number of tables with
// which a query at distance k among 2^d fingerprints of f bits meets at most 2^threshold
// candidates in each table, where every table is made by cutting r > k blocks, leading with
// r-k of them, and doing the same again with the rest. f/r need not be whole, as in the
// paper.
func optimalTables(f float64, k int, d, threshold float64) float64 {
	if d <= threshold {
		return 1
	}
	best := math.Inf(1)
	// r-k blocks of f/r bits each are matched: with more blocks than bits that is no cut.
	for r := k + 1; float64(r) <= f; r++ {
		matched := float64(r-k) * f / float64(r)
		if tables := binomial(r, k); tables < best {
			best = min(best, tables*optimalTables(f-matched, k, d-matched, threshold))
		}
	}
	return best
}

// binomial returns r over k.
func binomial(r, k int) float64 {
	n := 1.0
	for i := range k {
		n = n * float64(r-i) / float64(i+1)
	}
	return n
}
