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
	scale := c.flags.Bool("scale", false, "print what each design takes at this size: disk, memory, reads, load and batches (docs/scale.md)")
	h := c.hardwareFlags()
	queries := c.flags.Float64("queries", 1e6, "for -scale: `number` of queries in a batch")
	if err := c.parseFlags(); err != nil {
		return err
	}
	switch {
	case !(*n >= 1) || *n > 1e15:
		return usagef("-n is %g, want 1 to 1e15", *n)
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
	measured := plan.DefaultCosts()
	if *scale {
		h.ramBytes = limits.RAMBytes
		return printScale(c.out, plans, int64(*n), *queries, measured, h)
	}
	choice, refused := plan.Choose(*k, int64(*n), limits, measured)
	if refused != nil && !errors.Is(refused, plan.ErrUnusable) {
		return refused
	}
	fmt.Fprintf(c.out, "k = %d, %g documents\n\n", *k, *n)
	if err := printDesigns(c.out, plans, int64(*n), limits, measured, choice); err != nil {
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
func printDesigns(out io.Writer, plans []namedPlan, n int64, limits plan.Limits, costs plan.Costs, choice plan.Choice) error {
	columns := []string{"design", "tables", "prefixes", "radii", "probes", "filter look-ups", "candidates",
		"GB of tables", "GB of filters", "GB of memory", "us warm", "us from disk"}
	if limits.RAMBytes > 0 {
		columns = append(columns, fmt.Sprintf("us with %g GB", float64(limits.RAMBytes)/1e9))
	}
	w := newTable(out, append(columns, "")...)
	for _, p := range plans {
		e := p.Estimate(n, costs, limits.RAMBytes)
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

// hardware is what a scale is estimated for.
type hardware struct {
	cores       int
	readLatency time.Duration // of a random read of some KB from disk
	queueDepth  int           // random reads under way at once
	diskRate    float64       // GB a second of the disk, read or written in order
	ramBytes    int64         // for filters and directories; 0: as much as they take
}

func (c *call) hardwareFlags() *hardware {
	h := new(hardware)
	c.flags.IntVar(&h.cores, "cores", 2, "for -scale: `number` of cores")
	c.flags.DurationVar(&h.readLatency, "read", 100*time.Microsecond, "for -scale: `time` of a random read of some KB from disk")
	c.flags.IntVar(&h.queueDepth, "depth", 32, "for -scale: `number` of random reads under way at once")
	c.flags.Float64Var(&h.diskRate, "disk-rate", 1, "for -scale: `GB` a second that the disk reads and writes in order")
	c.check(func() error {
		if h.cores < 1 || h.readLatency <= 0 || h.queueDepth < 1 || !(h.diskRate > 0) {
			return usagef("-cores, -read, -depth and -disk-rate must be positive")
		}
		return nil
	})
	return h
}

// scale is what an index of many documents is expected to take, compacted, with nothing
// but filters and directories in memory. docs/scale.md says how well it agrees with
// what was measured. Times are in seconds.
type scale struct {
	plan.Estimate
	readBytes        float64 // of a query without a match, which makes a read for each probe that passes
	queriesPerSecond float64 // by what is slowest: reads, their bytes, or cores
	load             float64 // in bulk
	batch            float64 // of queries, table by table, by what is slower: disk or cores
}

// Nanoseconds of a bulk load on two cores, a fingerprint: for each table, and for its
// filter (docs/scale.md). That more cores would make it faster was not measured.
const (
	loadTable  = 61.5
	loadFilter = 70.5
)

const (
	// readAtOnce is the least that the store reads of a packed table, some blocks.
	readAtOnce = 8 << 10
	// batchWindow is how many queries of a batch go through the tables together.
	batchWindow = 1 << 20
)

// scaleOf estimates for n documents and a batch of so many queries.
func scaleOf(p *plan.Plan, n int64, queries float64, costs plan.Costs, h *hardware) scale {
	s := scale{Estimate: p.Estimate(n, costs, h.ramBytes)}
	load := 0.0
	for _, t := range s.Tables {
		// A probe that passes reads what the store reads at once, and what its candidates
		// take beyond that.
		s.readBytes += t.Passing*readAtOnce + t.Candidates*t.Bytes/s.Fingerprints
		if load += loadTable; t.FilterBytes > 0 {
			load += loadFilter
		}
	}
	s.load = max(load*s.Fingerprints/1e9, s.DiskBytes()/(1e9*h.diskRate))
	readsPerSecond := float64(h.queueDepth) / h.readLatency.Seconds()
	s.queriesPerSecond = min(readsPerSecond/max(s.Passing, 1e-9), (1e9*h.diskRate)/max(s.readBytes, 1), float64(h.cores)*1e9/s.Warm)
	// In the order of a table, reads are of neighbours: the disk is read at its full rate
	// once most blocks are wanted.
	windows := math.Ceil(queries / batchWindow)
	work, blocks := s.Batch(queries/windows, costs)
	reading := min(blocks/readsPerSecond, (s.TableBytes+s.PostingBytes)/(1e9*h.diskRate))
	s.batch = windows * max(work/1e9/float64(h.cores), reading)
	return s
}

// printScale prints a line a design.
func printScale(out io.Writer, plans []namedPlan, n int64, queries float64, costs plan.Costs, h *hardware) error {
	fmt.Fprintf(out, "k = %d, %g documents; %d cores, reads of %v with %d under way, %g GB/s in order, batches of %g queries\n\n",
		plans[0].MaxDistance, float64(n), h.cores, h.readLatency, h.queueDepth, h.diskRate, queries)
	w := newTable(out, "design", "tables", "GB on disk", "GB of memory", "probes", "reads a query",
		"KB a query", "candidates", "queries/s", "load", "batch")
	for _, p := range plans {
		s := scaleOf(p.Plan, n, queries, costs, h)
		fmt.Fprintf(w, "%s\t%d\t%.4g\t%.3g\t%d\t%.3g\t%.3g\t%.3g\t%s\t%s\t%s\t\n", p.names, len(s.Tables),
			s.DiskBytes()/1e9, s.MemoryBytes()/1e9, s.Probes, s.Passing, s.readBytes/1e3, s.Candidates,
			threeDigits(s.queriesPerSecond), seconds(s.load), seconds(s.batch))
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
