package main

import (
	"fmt"
	"math"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/neardup/neardup/index/plan"
)

// hardware is what a scale is estimated for.
type hardware struct {
	cores          int
	readLatency    time.Duration // of a random read of some KB from disk
	queueDepth     int           // random reads under way at once
	bytesPerSecond float64       // of the disk, read or written in order
	ramBytes       int64         // for filters and directories; 0: as much as they take
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
func scaleOf(p *plan.Plan, n int64, queries float64, costs plan.Costs, h hardware) scale {
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
	s.load = max(load*s.Fingerprints/1e9, s.DiskBytes()/h.bytesPerSecond)
	readsPerSecond := float64(h.queueDepth) / h.readLatency.Seconds()
	s.queriesPerSecond = min(readsPerSecond/max(s.Passing, 1e-9), h.bytesPerSecond/max(s.readBytes, 1), float64(h.cores)*1e9/s.Warm)
	// In the order of a table, reads are of neighbours: the disk is read at its full rate
	// once most blocks are wanted.
	windows := math.Ceil(queries / batchWindow)
	work, blocks := s.Batch(queries/windows, costs)
	reading := min(blocks/readsPerSecond, (s.TableBytes+s.PostingBytes)/h.bytesPerSecond)
	s.batch = windows * max(work/1e9/float64(h.cores), reading)
	return s
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
func (f *scaleFlags) print(c *call, k int, n int64, costs plan.Costs, ram int64) error {
	h := hardware{cores: f.cores, readLatency: f.latency, queueDepth: f.depth, bytesPerSecond: f.rate * 1e9, ramBytes: ram}
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
		s := scaleOf(p.Plan, n, f.queries, costs, h)
		fmt.Fprintf(w, "%s\t%d\t%.4g\t%.3g\t%d\t%.3g\t%.3g\t%.3g\t%s\t%s\t%s\t\n", p.names, len(s.Tables),
			s.DiskBytes()/1e9, s.MemoryBytes()/1e9, s.Probes, s.Passing, s.readBytes/1e3, s.Candidates,
			threeDigits(s.queriesPerSecond), seconds(s.load), seconds(s.batch))
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
