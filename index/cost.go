package index

import (
	"math"

	"github.com/neardup/neardup/index/filter"
)

// Costs are the times, in nanoseconds, from which the time of a query is reckoned.
// As an argument, the zero value stands for DefaultCosts.
type Costs struct {
	// Query is for a query that probes nothing.
	Query float64 `json:"query"`
	// FilterLookup is for a word of a prefix filter: it answers for the prefixes that
	// differ in their low 6 bits only. A query asks for many at once, so waiting for
	// one overlaps with waiting for others.
	FilterLookup float64 `json:"filterLookup"`
	// PackedProbe is for a probe of a packed table whose block is in memory.
	PackedProbe float64 `json:"packedProbe"`
	// PackedCandidate is for each fingerprint that such a probe returns.
	PackedCandidate float64 `json:"packedCandidate"`
	// LiveSeek and LiveCandidate are the same in the live tables.
	LiveSeek      float64 `json:"liveSeek"`
	LiveCandidate float64 `json:"liveCandidate"`
	// DiskRead is what a probe takes more when its block is not in memory, DiskByte
	// what each byte of its candidates adds then.
	DiskRead float64 `json:"diskRead"`
	DiskByte float64 `json:"diskByte"`
}

// DefaultCosts returns costs of the order of a common server with a solid-state
// disk. They are for comparing plans with each other; give those of a machine to get
// its times.
func DefaultCosts() Costs {
	return Costs{
		Query:           500,
		FilterLookup:    25,
		PackedProbe:     300,
		PackedCandidate: 1.6,
		LiveSeek:        2500,
		LiveCandidate:   60,
		DiskRead:        100_000,
		DiskByte:        1,
	}
}

func (c Costs) orDefault() Costs {
	if c == (Costs{}) {
		return DefaultCosts()
	}
	return c
}

// Estimate is what a plan is expected to take with n fingerprints that are uniformly
// distributed and all different. Bytes are those of a compacted index, without
// the documents' own records. Times are in nanoseconds a query.
type Estimate struct {
	Tables        int     `json:"tables"`
	Probes        int     `json:"probes"`        // prefixes within the radii
	FilterLookups int     `json:"filterLookups"` // words of filters that answer for all probes
	Passing       float64 `json:"passing"`       // probes that the filters leave
	Candidates    float64 `json:"candidates"`    // fingerprints that the probes return

	TableBytes     float64 `json:"tableBytes"` // of all packed tables
	PostingBytes   float64 `json:"postingBytes"`
	FilterBytes    float64 `json:"filterBytes"`    // on disk and in memory alike
	DirectoryBytes float64 `json:"directoryBytes"` // in memory
	LiveBytes      float64 `json:"liveBytes"`      // of all tables, were nothing compacted

	Warm  float64 `json:"warm"`  // everything in memory
	Disk  float64 `json:"disk"`  // only the filters and directories in memory
	Live  float64 `json:"live"`  // nothing compacted, in memory
	Query float64 `json:"query"` // the memory that there is, between Warm and Disk
}

// DiskBytes returns what the compacted tables take on disk with all that belongs
// to them.
func (e Estimate) DiskBytes() float64 { return e.TableBytes + e.PostingBytes + e.FilterBytes }

// MemoryBytes returns the memory that every query uses, without blocks.
func (e Estimate) MemoryBytes() float64 { return e.FilterBytes + e.DirectoryBytes }

const (
	// packedOverhead is what a packed table takes over its entropy, 64 - log2 n + 1.44
	// bits an entry.
	packedOverhead = 1.053
	// postingOverhead is what a posting takes over the bits of an ID, in bytes.
	postingOverhead = 0.23
	// liveEntryBytes is what an entry takes before compaction.
	liveEntryBytes = 22
	// A directory has a key and a reference for each block of this many bytes.
	directoryBytes = 18
	blockBytes     = 1024

	unlimited = math.MaxInt64
)

// Estimate reckons with so much memory for filters, directories and blocks, 0 for
// as much as it takes. Where there is less, the directories come first, then the
// filters, then the blocks, so that a query reads some from disk.
func (p *Plan) Estimate(n int64, costs Costs, ramBytes int64) Estimate {
	n, costs = max(n, 1), costs.orDefault()
	documents := float64(n)
	entryBytes := (64 - math.Log2(documents) + 1.44) / 8 * packedOverhead
	postingBytes := math.Log2(documents)/8 + postingOverhead
	e := Estimate{
		Tables:       len(p.Tables),
		Probes:       p.Probes(),
		TableBytes:   float64(len(p.Tables)) * documents * entryBytes,
		PostingBytes: documents * postingBytes,
		LiveBytes:    float64(len(p.Tables)) * documents * liveEntryBytes,
		Warm:         costs.Query,
		Live:         costs.Query,
	}
	e.DirectoryBytes = (e.TableBytes + e.PostingBytes) / blockBytes * directoryBytes
	share := p.filterShare(n, ramBytes, e.DirectoryBytes)
	var fromDisk float64
	for i, t := range p.Tables {
		at := t.estimate(n, t.filterBudget(n, share))
		e.FilterLookups += at.lookups
		e.FilterBytes += at.filterBytes
		e.Passing += at.passing
		e.Candidates += at.candidates
		e.Warm += at.warm(costs)
		e.Live += at.live(costs)
		bytes := entryBytes
		if i == 0 {
			bytes += postingBytes
		}
		fromDisk += at.passing*costs.DiskRead + at.candidates*bytes*costs.DiskByte
	}
	e.Disk = e.Warm + fromDisk
	e.Query = e.Warm
	if ramBytes > 0 {
		room := max(0, float64(ramBytes)-e.MemoryBytes())
		e.Query += fromDisk * max(0, 1-room/(e.TableBytes+e.PostingBytes))
	}
	return e
}

// filterShare returns which part of the memory that the filters would take there is
// for them, at most 1.
func (p *Plan) filterShare(n, ramBytes int64, directories float64) float64 {
	if ramBytes <= 0 {
		return 1
	}
	wanted := 0.0
	for _, t := range p.Tables {
		bytes, _ := filter.Size(t.Prefix, n, unlimited)
		wanted += float64(bytes)
	}
	return max(0, min(1, (float64(ramBytes)-directories)/wanted))
}

// tableEstimate is what one table of a plan adds to a query.
type tableEstimate struct {
	lookups             int
	filterBytes         float64
	passing, candidates float64
}

// estimate reckons with a filter of at most budget bytes.
func (t Table) estimate(n, budget int64) tableEstimate {
	bytes, falsePositives := filter.Size(t.Prefix, n, budget)
	probes, each := float64(t.Probes()), float64(n)/math.Exp2(float64(t.Prefix))
	there := -math.Expm1(-each) // the share of prefixes that some fingerprint has
	e := tableEstimate{
		filterBytes: float64(bytes),
		passing:     probes * (there + (1-there)*falsePositives),
		candidates:  probes * each,
	}
	if bytes > 0 {
		e.lookups = t.FilterLookups()
	}
	return e
}

func (e tableEstimate) warm(c Costs) float64 {
	return float64(e.lookups)*c.FilterLookup + e.passing*c.PackedProbe + e.candidates*c.PackedCandidate
}

func (e tableEstimate) live(c Costs) float64 {
	return float64(e.lookups)*c.FilterLookup + e.passing*c.LiveSeek + e.candidates*c.LiveCandidate
}

// FilterLookups returns the number of words of the table's prefix filter that a
// query looks at: one for all probes that differ in the low bits of the prefix only.
func (t Table) FilterLookups() int {
	return Table{Prefix: max(t.Prefix-filter.GroupBits, 0), Radius: t.Radius}.Probes()
}

// filterBudget returns what a table's filter may take where all of them get this share
// of what they would.
func (t *Table) filterBudget(n int64, share float64) int64 {
	if share >= 1 {
		return unlimited
	}
	wanted, _ := filter.Size(t.Prefix, n, unlimited)
	return int64(float64(wanted) * share)
}
