package plan

import (
	"math"

	"github.com/neardup/neardup/internal/filter"
)

// Times in nanoseconds, from which the time of a query is estimated. They are typical of a server
// with a solid-state disk, and serve to compare plans. The times of lookups, probes and candidates
// never change, since they determine the lengths of blocks (blocks.go).
const (
	costQuery     = 500.0 // a query without probes
	costLookup    = 25.0  // a word of a filter, within radius 1: all cache misses overlap
	costFarLookup = 50.0  // a word of a filter, within a larger radius
	costProbe     = 200.0 // a probe of a packed table whose block is in memory
	costCandidate = 0.8   // a candidate of such a probe
	costDiskRead  = 1e5   // the additional time of a probe whose block is not in memory
	costDiskByte  = 1     // a byte of candidates of such a probe
)

// Estimate is the estimated cost of a plan for n different, uniformly distributed
// fingerprints. Bytes are bytes of a compacted index without the records of documents.
// Times are in nanoseconds per query.
type Estimate struct {
	Fingerprints float64 // n
	Tables       []TableEstimate

	Probes        int     // prefixes within the radii
	FilterLookups int     // words of filters that answer for all probes
	Passing       float64 // probes that the filters leave
	Candidates    float64 // fingerprints that these probes return

	TableBytes     float64 // of all packed tables
	PostingBytes   float64
	FilterBytes    float64 // on disk and in memory alike
	DirectoryBytes float64 // in memory

	Warm float64 // everything in memory
	Disk float64 // only the filters and directories in memory
}

// TableEstimate is the contribution of one table to an Estimate.
type TableEstimate struct {
	FilterLookups       int
	Passing, Candidates float64
	Bytes               float64 // packed; with the postings, for the first table
	FilterBytes         float64
}

// DiskBytes returns the size of the compacted tables on disk, with their filters and
// directories.
func (e *Estimate) DiskBytes() float64 { return e.TableBytes + e.PostingBytes + e.FilterBytes }

// MemoryBytes returns the memory that every query uses, without blocks.
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

// Estimate estimates the size of an index of n fingerprints with this plan, and the time of
// its queries.
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

// estimate estimates the contribution of a table with a filter of any size.
func (t Table) estimate(n int64) TableEstimate {
	bytes, falsePositives := filter.Size(t.Prefix, n, math.MaxInt64)
	probes, each := float64(t.Probes()), float64(n)/math.Exp2(float64(t.Prefix))
	there := -math.Expm1(-each) // the share of prefixes that some fingerprint has
	e := TableEstimate{
		FilterBytes: float64(bytes),
		Passing:     probes * (there + (1-there)*falsePositives),
		Candidates:  probes * each,
	}
	if bytes > 0 {
		e.FilterLookups = t.filterWords()
	}
	return e
}

// filterWords returns the number of words of the table's filter that a query reads: one for
// all probes that differ only in the low bits of the prefix.
func (t Table) filterWords() int {
	return Table{Prefix: max(t.Prefix-filter.GroupBits, 0), Radius: t.Radius}.Probes()
}

// warm returns the time of a query in the table, if everything is in memory.
func (t Table) warm(e TableEstimate) float64 {
	lookup := costLookup
	if t.Radius > 1 {
		lookup = costFarLookup
	}
	return float64(e.FilterLookups)*lookup + e.Passing*costProbe + e.Candidates*costCandidate
}
