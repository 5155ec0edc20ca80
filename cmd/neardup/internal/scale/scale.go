// Package scale estimates what an index of many documents takes, compacted, with nothing but filters and
// directories in memory. docs/scale.md says how well it agrees with what was measured.
package scale

import (
	"math"
	"time"

	"github.com/neardup/neardup/internal/plan"
)

// Hardware is what it is estimated for.
type Hardware struct {
	Cores       int
	ReadLatency time.Duration // of a random read of some KB from disk
	QueueDepth  int           // random reads under way at once
	DiskRate    float64       // GB a second of the disk, read or written in order
	RAMBytes    int64         // for filters and directories; 0: as much as they take
}

// Scale is what an index is expected to take. Times are in seconds.
type Scale struct {
	plan.Estimate
	ReadBytes        float64 // of a query without a match, which makes a read for each probe that passes
	QueriesPerSecond float64 // by what is slowest: reads, their bytes, or cores
	Load             float64 // in bulk
	BatchTime        float64 // of queries, table by table, by what is slower: disk or cores
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

// Of estimates for n documents and a batch of so many queries.
func Of(p *plan.Plan, n int64, queries float64, h *Hardware) Scale {
	s := Scale{Estimate: p.Estimate(n, h.RAMBytes)}
	load := 0.0
	for _, t := range s.Tables {
		// A probe that passes reads what the store reads at once, and what its candidates
		// take beyond that.
		s.ReadBytes += t.Passing*readAtOnce + t.Candidates*t.Bytes/s.Fingerprints
		if load += loadTable; t.FilterBytes > 0 {
			load += loadFilter
		}
	}
	s.Load = max(load*s.Fingerprints/1e9, s.DiskBytes()/(1e9*h.DiskRate))
	readsPerSecond := float64(h.QueueDepth) / h.ReadLatency.Seconds()
	s.QueriesPerSecond = min(readsPerSecond/max(s.Passing, 1e-9), (1e9*h.DiskRate)/max(s.ReadBytes, 1), float64(h.Cores)*1e9/s.Warm)
	// In the order of a table, reads are of neighbours: the disk is read at its full rate
	// once most blocks are wanted.
	windows := math.Ceil(queries / batchWindow)
	work, blocks := s.Batch(queries / windows)
	reading := min(blocks/readsPerSecond, (s.TableBytes+s.PostingBytes)/(1e9*h.DiskRate))
	s.BatchTime = windows * max(work/1e9/float64(h.Cores), reading)
	return s
}

// OptimalTables is the paper's X(f, k, d) (section 3.1.2): the least number of tables with
// which a query at distance k among 2^d fingerprints of f bits meets at most 2^threshold
// candidates in each table, where every table is made by cutting r > k blocks, leading with
// r-k of them, and doing the same again with the rest. f/r need not be whole, as in the
// paper.
func OptimalTables(f float64, k int, d, threshold float64) float64 {
	if d <= threshold {
		return 1
	}
	best := math.Inf(1)
	// r-k blocks of f/r bits each are matched: with more blocks than bits that is no cut.
	for r := k + 1; float64(r) <= f; r++ {
		matched := float64(r-k) * f / float64(r)
		if tables := binomial(r, k); tables < best {
			best = min(best, tables*OptimalTables(f-matched, k, d-matched, threshold))
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
