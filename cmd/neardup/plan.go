package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/neardup/neardup/cmd/neardup/internal/scale"
	"github.com/neardup/neardup/internal/plan"
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
	disk := c.gigabytesFlag("disk", "most `GB` on disk, compacted, without the documents' records (default no limit)")
	ram := c.gigabytesFlag("ram", "`GB` of memory: what does not fit is read from disk (default no limit)")
	threshold := c.flags.Float64("threshold", 10, "for the optimum: `log2` of the candidates that a probe may return")
	scaled := c.flags.Bool("scale", false, "print what each design takes at this size: disk, memory, reads, load and batches (docs/scale.md)")
	h := c.hardwareFlags()
	queries := c.flags.Float64("queries", 1e6, "for -scale: `number` of queries in a batch")
	if err := c.parseFlags(); err != nil {
		return err
	}
	switch {
	case !(*n >= 1) || *n > maxDocuments:
		return usagef("-n is %g, want 1 to %g", *n, maxDocuments)
	case math.IsNaN(*threshold):
		return usagef("-threshold is no number")
	case !(*queries >= 1) || *queries > 1e12:
		return usagef("-queries is %g, want 1 to 1e12", *queries)
	}
	limits := plan.Limits{Tables: *tables, DiskBytes: disk(), RAMBytes: ram()}
	plans, err := plansFor(*k)
	if err != nil {
		return err
	}
	if *scaled {
		h.RAMBytes = limits.RAMBytes
		return printScale(c.out, plans, int64(*n), *queries, h)
	}
	choice, refused := plan.Choose(*k, int64(*n), limits)
	if refused != nil && !errors.Is(refused, plan.ErrUnusable) {
		return refused
	}
	fmt.Fprintf(c.out, "k = %d, %g documents\n\n", *k, *n)
	if err := printDesigns(c.out, plans, int64(*n), limits, choice); err != nil {
		return err
	}
	if refused != nil { // the table shows how far off the limits are
		return refused
	}
	fmt.Fprintf(c.out, "\nchosen: %s\n", choice.Reason)
	fmt.Fprintf(c.out, "optimum X(64, %d, %.4g) of the paper (section 3.1.2), at most 2^%g candidates a probe: %g tables\n",
		*k, math.Log2(*n), *threshold, scale.OptimalTables(64, *k, math.Log2(*n), *threshold))
	return nil
}

// gigabytesFlag is a limit, and returns it in bytes; 0 is none.
func (c *call) gigabytesFlag(name, usage string) (bytes func() int64) {
	gb := c.flags.Float64(name, 0, usage)
	c.check(func() error {
		if !(*gb >= 0) || *gb > 1e9 {
			return usagef("-%s is %g, want GB from 0 to 1e9", name, *gb)
		}
		return nil
	})
	return func() int64 { return int64(*gb * 1e9) }
}

// printDesigns prints a line a design. Memory is that of the filters and directories,
// without blocks.
func printDesigns(out io.Writer, plans []namedPlan, n int64, limits plan.Limits, choice plan.Choice) error {
	columns := []string{"design", "tables", "prefixes", "radii", "probes", "filter look-ups", "candidates",
		"GB of tables", "GB of filters", "GB of memory", "us warm", "us from disk"}
	if limits.RAMBytes > 0 {
		columns = append(columns, fmt.Sprintf("us with %g GB", float64(limits.RAMBytes)/1e9))
	}
	w := newTable(out, append(columns, "")...)
	for _, p := range plans {
		e := p.Estimate(n, limits.RAMBytes)
		prefixes := span(p.Tables, func(t plan.Table) int { return t.Prefix })
		radii := span(p.Tables, func(t plan.Table) int { return t.Radius })
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

// span returns the least and the largest of something that tables have.
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

// namedPlan is the plan of a design.
type namedPlan struct {
	*plan.Plan
	design string
	names  string // with the numbers that stand for the same plan
}

// plansFor returns the plans of all designs for k.
func plansFor(k int) (plans []namedPlan, err error) {
	numbers := make(map[string]string) // by plan
	for _, name := range []string{"2", "3", "4"} {
		p, err := plan.Named(name, k)
		if err != nil {
			return nil, err
		}
		numbers[p.String()] += name + ", "
	}
	for _, name := range plan.Designs(k) {
		p, err := plan.Named(name, k)
		if err != nil {
			return nil, err
		}
		plans = append(plans, namedPlan{p, name, numbers[p.String()] + name})
	}
	return plans, nil
}

func (c *call) hardwareFlags() *scale.Hardware {
	h := new(scale.Hardware)
	c.flags.IntVar(&h.Cores, "cores", 2, "for -scale: `number` of cores")
	c.flags.DurationVar(&h.ReadLatency, "read", 100*time.Microsecond, "for -scale: `time` of a random read of some KB from disk")
	c.flags.IntVar(&h.QueueDepth, "depth", 32, "for -scale: `number` of random reads under way at once")
	c.flags.Float64Var(&h.DiskRate, "disk-rate", 1, "for -scale: `GB` a second that the disk reads and writes in order")
	c.check(func() error {
		if h.Cores < 1 || h.ReadLatency <= 0 || h.QueueDepth < 1 || !(h.DiskRate > 0) {
			return usagef("-cores, -read, -depth and -disk-rate must be positive")
		}
		return nil
	})
	return h
}

// printScale prints a line a design.
func printScale(out io.Writer, plans []namedPlan, n int64, queries float64, h *scale.Hardware) error {
	fmt.Fprintf(out, "k = %d, %g documents; %d cores, reads of %v with %d under way, %g GB/s in order, batches of %g queries\n\n",
		plans[0].MaxDistance, float64(n), h.Cores, h.ReadLatency, h.QueueDepth, h.DiskRate, queries)
	w := newTable(out, "design", "tables", "GB on disk", "GB of memory", "probes", "reads a query",
		"KB a query", "candidates", "queries/s", "load", "batch")
	for _, p := range plans {
		s := scale.Of(p.Plan, n, queries, h)
		fmt.Fprintf(w, "%s\t%d\t%.4g\t%.3g\t%d\t%.3g\t%.3g\t%.3g\t%s\t%s\t%s\t\n", p.names, len(s.Tables),
			s.DiskBytes()/1e9, s.MemoryBytes()/1e9, s.Probes, s.Passing, s.ReadBytes/1e3, s.Candidates,
			threeDigits(s.QueriesPerSecond), seconds(s.Load), seconds(s.BatchTime))
	}
	return w.Flush()
}

// newTable begins a table for people, of columns to the right.
func newTable(out io.Writer, columns ...string) *tabwriter.Writer {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "%s\t\n", strings.Join(columns, "\t"))
	return w
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
