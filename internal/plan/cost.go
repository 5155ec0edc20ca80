package plan

import (
	"math"

	"github.com/neardup/neardup/internal/filter"
)

// Times in nanoseconds, typical of a server with a solid-state disk. The time of a query is
// estimated from them, to compare plans. The times of lookups, probes and candidates never change,
// since they determine the lengths of blocks (blocks.go).
const (
	costQuery     = 500.0 // a query without probes
	costLookup    = 25.0  // a lookup of a word of a filter, radius 0 or 1: all cache misses overlap
	costFarLookup = 50.0  // a lookup of a word of a filter, larger radius
	costProbe     = 200.0 // a probe of a packed table whose block is in memory
	costCandidate = 0.8   // comparing a candidate
	costDiskRead  = 1e5   // additional, if the block of a probe is not in memory
	costDiskByte  = 1     // additional per byte of candidates, if the block is not in memory
)

// Estimate is the estimated cost of a plan for n different, uniformly distributed fingerprints.
// Bytes are bytes of a compacted index without the records of documents. Times are nanoseconds per
// query.
type Estimate struct {
	Fingerprints float64 // n
	Tables       []TableEstimate

	Probes        int     // prefixes within the radii
	FilterLookups int     // words of filters that answer for all probes
	Passing       float64 // probes that the filters do not avoid
	Candidates    float64 // fingerprints that these probes return

	TableBytes     float64 // of all packed tables
	PostingBytes   float64
	FilterBytes    float64 // on disk and in memory alike
	DirectoryBytes float64 // in memory

	Warm float64 // time if everything is in memory
	Disk float64 // time if only the filters and directories are in memory
}

// TableEstimate is the contribution of one table to an Estimate.
type TableEstimate struct {
	FilterLookups       int
	Passing, Candidates float64
	Bytes               float64 // of the packed table; for the first table, with the postings
	FilterBytes         float64
}

// DiskBytes returns the size of the compacted tables on disk, with their filters and
// directories.
func (e *Estimate) DiskBytes() float64 { return e.TableBytes + e.PostingBytes + e.FilterBytes }

// MemoryBytes returns the size of the filters and directories, which must be in memory.
func (e *Estimate) MemoryBytes() float64 { return e.FilterBytes + e.DirectoryBytes }

const (
	// blockBytes is the size of a packed block.
	blockBytes = 1024
	// directoryBytes is the memory of the directory per block.
	directoryBytes = 18
	// packedOverhead is the size of a packed table beyond its entropy, which is 64 - log2 n + 1.44
	// bits per entry.
	packedOverhead = 1.053
	// postingOverhead is the size of a posting beyond the bits of an ID, in bytes.
	postingOverhead = 0.23
)

// Estimate estimates the size of an index of n fingerprints with this plan, and the time of its
// queries.
func (p *Plan) Estimate(n int64) Estimate {
	n = max(n, 1)
	documents := float64(n)
	entryBytes := (64 - math.Log2(documents) + 1.44) / 8 * packedOverhead
	e := Estimate{
		Fingerprints: documents,
		Probes:       p.Probes(),
		TableBytes:   float64(len(p.Tables)) * documents * entryBytes,
		PostingBytes: documents * (math.Log2(documents)/8 + postingOverhead),
		Warm:         costQuery,
	}
	e.DirectoryBytes = (e.TableBytes + e.PostingBytes) / blockBytes * directoryBytes
	var fromDisk float64
	for i, t := range p.Tables {
		at := t.estimate(n)
		if at.Bytes = documents * entryBytes; i == 0 {
			at.Bytes += e.PostingBytes
		}
		e.Tables = append(e.Tables, at)
		e.FilterLookups += at.FilterLookups
		e.FilterBytes += at.FilterBytes
		e.Passing += at.Passing
		e.Candidates += at.Candidates
		e.Warm += t.warm(at)
		fromDisk += at.Passing*costDiskRead + at.Candidates*at.Bytes/documents*costDiskByte
	}
	e.Disk = e.Warm + fromDisk
	return e
}

// estimate estimates the contribution of a table whose filter has no budget.
func (t Table) estimate(n int64) TableEstimate {
	bytes, falsePositives := filter.Size(t.Prefix, n, math.MaxInt64)
	probes, each := float64(t.Probes()), float64(n)/math.Exp2(float64(t.Prefix))
	used := -math.Expm1(-each) // the share of prefixes that some fingerprint has
	e := TableEstimate{
		FilterBytes: float64(bytes),
		Passing:     probes * (used + (1-used)*falsePositives),
		Candidates:  probes * each,
	}
	if bytes > 0 {
		e.FilterLookups = t.filterWords()
	}
	return e
}

// filterWords returns the number of words of the table's filter that a query reads. One word
// answers for all probes that differ only in the low bits of the prefix.
func (t Table) filterWords() int {
	return Table{Prefix: max(t.Prefix-filter.GroupBits, 0), Radius: t.Radius}.Probes()
}

// warm returns the time of a query in a table with this estimate, if everything is in memory.
func (t Table) warm(e TableEstimate) float64 {
	lookup := costLookup
	if t.Radius > 1 {
		lookup = costFarLookup
	}
	return float64(e.FilterLookups)*lookup + e.Passing*costProbe + e.Candidates*costCandidate
}
