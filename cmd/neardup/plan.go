package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/neardup/neardup/index"
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
	limits := index.Limits{Tables: *tables}
	var err error
	if limits.DiskBytes, err = gigabytes("disk", *disk); err != nil {
		return err
	}
	if limits.RAMBytes, err = gigabytes("ram", *ram); err != nil {
		return err
	}
	measured := index.DefaultCosts()
	if scale.wanted {
		if err := scale.check(); err != nil {
			return err
		}
		return scale.print(c, *k, int64(*n), measured, limits.RAMBytes)
	}
	choice, refused := index.ChoosePlanWithin(*k, int64(*n), limits, measured)
	if refused != nil && !errors.Is(refused, index.ErrPlan) {
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
		*k, math.Log2(*n), *threshold, index.OptimalTables(64, *k, math.Log2(*n), *threshold))
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
func printDesigns(c *call, k int, n int64, limits index.Limits, costs index.Costs, choice index.Choice) error {
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
			e.Tables, prefixes, radii, e.Probes, e.FilterLookups, e.Candidates,
			(e.TableBytes+e.PostingBytes)/1e9, e.FilterBytes/1e9, e.MemoryBytes()/1e9, e.Warm/1e3, e.Disk/1e3)
		if limits.RAMBytes > 0 {
			fmt.Fprintf(w, "%.4g\t", e.Query/1e3)
		}
		mark := ""
		if p.design == choice.Design.Name {
			mark = "chosen"
		}
		fmt.Fprintf(w, "%s\t\n", mark)
	}
	return w.Flush()
}

// namedPlan is the plan of a design.
type namedPlan struct {
	*index.Plan
	design string
	names  string // with those of designs without blocks that come to the same plan
}

// plansFor returns the plans of all designs for k.
func plansFor(k int) ([]namedPlan, error) {
	aliases := map[string][]string{} // by plan
	for _, d := range []index.Design{index.Design2, index.Design3, index.Design4} {
		p, err := d.Plan(k)
		if err != nil {
			return nil, err
		}
		aliases[p.String()] = append(aliases[p.String()], d.Name)
	}
	var plans []namedPlan
	for _, d := range index.DesignsFor(k) {
		p, err := d.Plan(k)
		if err != nil {
			return nil, err
		}
		plans = append(plans, namedPlan{p, d.Name, strings.Join(append(aliases[p.String()], d.Name), ", ")})
	}
	return plans, nil
}

// ranges returns the least and the largest prefix, and the same of the radii.
func ranges(p *index.Plan) (prefixes, radii string) {
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

// scaleFlags are the hardware for which a plan -scale reckons.
type scaleFlags struct {
	wanted  bool
	cores   int
	latency time.Duration
	depth   int
	rate    float64
	queries float64
}

func (c *call) scaleFlags() *scaleFlags {
	f := &scaleFlags{}
	c.flags.BoolVar(&f.wanted, "scale", false, "print what each design takes at this size: disk, memory, reads, load and batches (docs/scale.md)")
	c.flags.IntVar(&f.cores, "cores", 2, "for -scale: `number` of cores")
	c.flags.DurationVar(&f.latency, "read", 100*time.Microsecond, "for -scale: `time` of a random read of some KB from disk")
	c.flags.IntVar(&f.depth, "depth", 32, "for -scale: `number` of random reads under way at once")
	c.flags.Float64Var(&f.rate, "disk-rate", 1, "for -scale: `GB` a second that the disk reads and writes in order")
	c.flags.Float64Var(&f.queries, "queries", 1e6, "for -scale: `number` of queries in a batch")
	return f
}

func (f *scaleFlags) check() error {
	if f.cores < 1 || f.latency <= 0 || f.depth < 1 || !(f.rate > 0) || !(f.queries >= 1) || f.queries > 1e12 {
		return usagef("-cores, -read, -depth, -disk-rate and -queries must be positive")
	}
	return nil
}

// print prints a line a design.
func (f *scaleFlags) print(c *call, k int, n int64, costs index.Costs, ram int64) error {
	h := index.Hardware{Cores: f.cores, ReadLatency: f.latency, QueueDepth: f.depth, BytesPerSecond: f.rate * 1e9, RAMBytes: ram}
	fmt.Fprintf(c.out, "k = %d, %g documents; %d cores, reads of %v with %d under way, %g GB/s in order, batches of %g queries\n\n",
		k, float64(n), f.cores, f.latency, f.depth, f.rate, f.queries)
	w := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "%s\t\n", strings.Join([]string{"design", "tables", "GB on disk", "GB of memory", "probes", "reads a query",
		"KB a query", "candidates", "queries/s", "load", "batch"}, "\t"))
	plans, err := plansFor(k)
	if err != nil {
		return err
	}
	for _, p := range plans {
		s := p.Scale(n, int(f.queries), costs, h)
		fmt.Fprintf(w, "%s\t%d\t%.4g\t%.3g\t%d\t%.3g\t%.3g\t%.3g\t%s\t%s\t%s\t\n", p.names, s.Tables,
			s.DiskBytes()/1e9, s.MemoryBytes()/1e9, s.Probes, s.Reads, s.ReadBytes/1e3, s.Candidates,
			threeDigits(s.QueriesPerSecond), seconds(s.Load), seconds(s.Sorted))
	}
	return w.Flush()
}

func threeDigits(v float64) string {
	if v >= 100 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

// seconds writes a time with about three digits.
func seconds(s float64) string {
	switch {
	case s < 100:
		return fmt.Sprintf("%.3g s", s)
	case s < 2*3600:
		return fmt.Sprintf("%.3g min", s/60)
	}
	return fmt.Sprintf("%.3g h", s/3600)
}
