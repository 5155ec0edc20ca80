package index

import (
	"math"
	"time"
)

// Hardware is what Scale reckons with beside Costs. The zero value of a field stands for
// its default.
type Hardware struct {
	Cores          int           // default 2
	ReadLatency    time.Duration // of a random read of some KB from disk; default 100 us
	QueueDepth     int           // random reads under way at once; default 32
	BytesPerSecond float64       // of the disk, read or written in order; default 1e9
	RAMBytes       int64         // for filters and directories; default as much as they take
}

func (h Hardware) orDefault() Hardware {
	if h.Cores <= 0 {
		h.Cores = 2
	}
	if h.ReadLatency <= 0 {
		h.ReadLatency = 100 * time.Microsecond
	}
	if h.QueueDepth <= 0 {
		h.QueueDepth = 32
	}
	if !(h.BytesPerSecond > 0) {
		h.BytesPerSecond = 1e9
	}
	return h
}

// Scale is what an index of many documents is expected to take, compacted, with nothing
// but filters and directories in memory. docs/scale.md says how well it agrees with
// what was measured. Times are in seconds.
type Scale struct {
	Estimate

	Reads            float64 `json:"reads"`            // at random places, of a query without a match
	ReadBytes        float64 `json:"readBytes"`        // in all of these
	QueriesPerSecond float64 `json:"queriesPerSecond"` // by what is slowest: reads, their bytes, or cores
	Load             float64 `json:"load"`             // in bulk

	// Of a batch of queries, whatever is slower, the disk or the cores.
	Sorted float64 `json:"sorted"` // table by table
}

// Nanoseconds of a bulk load on two cores, a fingerprint: for each table, and for its
// filter. That more cores would make it faster was not measured. They are the geometric means of loads of 1e7, 1e8 and 1e9 fingerprints
// into two tables with filters (271, 306 and 222), less that of 1e7 into four without
// (246); docs/benchmarks.md has them all.
const (
	loadTable  = 61.5
	loadFilter = 70.5
)

// readAtOnce is the least that the store reads of a packed table, some blocks.
const readAtOnce = 8 << 10

// Scale reckons for n documents and a batch of so many queries.
func (p *Plan) Scale(n int64, queries int, costs Costs, h Hardware) Scale {
	h, costs = h.orDefault(), costs.orDefault()
	n, queries = max(n, 1), max(queries, 1)
	s := Scale{Estimate: p.Estimate(n, costs, h.RAMBytes)}
	share := p.filterShare(n, h.RAMBytes, s.DirectoryBytes)
	e := batchEstimate{plan: p, costs: costs, queries: queries, packed: n, cores: h.Cores}
	load := 0.0
	for i, t := range p.Tables {
		at := t.estimate(n, t.filterBudget(n, share))
		// A probe that passes reads what the store reads at once, and what its candidates
		// take beyond that.
		s.Reads += at.passing
		s.ReadBytes += at.passing*readAtOnce + at.candidates*e.blocks(i)/float64(n)*blockBytes
		if load += loadTable; at.filterBytes > 0 {
			load += loadFilter
		}
	}
	s.Load = max(load*float64(n)/1e9, s.DiskBytes()/h.BytesPerSecond)
	perSecond := float64(h.QueueDepth) / h.ReadLatency.Seconds()
	s.QueriesPerSecond = min(perSecond/max(s.Reads, 1e-9), h.BytesPerSecond/max(s.ReadBytes, 1), float64(h.Cores)*1e9/s.Warm)
	work, blocks := e.sortedWork()
	// In the order of a table, reads are of neighbours: the disk is read at its full rate
	// once most blocks are wanted.
	reading := min(blocks/perSecond, (s.TableBytes+s.PostingBytes)/h.BytesPerSecond)
	s.Sorted = math.Ceil(e.windows()) * max(work/1e9/float64(h.Cores), reading)
	return s
}
