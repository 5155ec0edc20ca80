package main

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/neardup/neardup/index"
)

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
