package match

import (
	"fmt"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/internal/fault"
)

// Match is a stored document near the fingerprint of a query.
type Match struct {
	Document
	Distance int // Hamming distance of the fingerprints
}

// Query selects the stored documents near a fingerprint.
type Query struct {
	// Documents are compared with Signature, by the same rule as in CheckAndAdd, with
	// Options.MaxShingleDistance, ShortAllowance and MaxLengthRatio. Zero Shingles or Tokens are
	// not compared.
	fingerprint.Signature

	// Scope is the scope of the matches.
	Scope string

	// MaxDistance is the largest Hamming distance of a match. 0: the k of the index. A larger
	// value than the k of the index is ErrDistance. Exact: only equal fingerprints match.
	MaxDistance int

	// Limit is how many matches are asked for, the nearest ones. 0: all.
	Limit int
}

// Exact as a MaxDistance selects only equal fingerprints.
const Exact = -1

// Within returns how far a query of an index with that k looks. Errors: ErrDistance; a negative
// Limit.
func (q *Query) Within(k int) (int, error) {
	switch {
	case q.Limit < 0:
		return 0, fmt.Errorf("query limit %d is negative", q.Limit)
	case q.MaxDistance == 0:
		return k, nil
	case q.MaxDistance == Exact:
		return 0, nil
	case q.MaxDistance < 0 || q.MaxDistance > k:
		return 0, fmt.Errorf("%w: k = %d is not in 0..%d, the k of the index", fault.ErrDistance,
			q.MaxDistance, k)
	}
	return q.MaxDistance, nil
}

// Stats describe an index. All figures are of the moment of the call.
type Stats struct {
	MaxDistance int    `json:"maxDistance"`
	Plan        string `json:"plan"`
	Tables      int    `json:"tables"`
	Probes      int    `json:"probes"` // range scans a query
	Analyzer    string `json:"analyzer,omitempty"`
	Format      int    `json:"format"`
	Documents   uint64 `json:"documents"` // live ones
	Bare        uint64 `json:"bare"`      // of those, the ones with nothing but a fingerprint
	// ID of the next document; NextID-1 have ever been added
	NextID    uint64 `json:"nextID"`
	DiskBytes uint64 `json:"diskBytes"` // with the write-ahead log

	Generation uint64 `json:"generation"` // how often the tables were packed
	Packed     uint64 `json:"packed"`     // fingerprints that the last time packed
	// documents that were added since, including removed documents
	Live           uint64 `json:"live"`
	Removed        uint64 `json:"removed"`        // documents that were removed since
	FilterBytes    uint64 `json:"filterBytes"`    // of memory that filters take
	DirectoryBytes uint64 `json:"directoryBytes"` // of memory for finding packed blocks
	CachedBytes    uint64 `json:"cachedBytes"`    // of packed blocks in memory

	StoreCachedBytes uint64 `json:"storeCachedBytes"` // of other data of the store in memory

	// documents that were removed as Expiry says, since the index was opened
	Expired uint64 `json:"expired,omitempty"`

	// CrowdedTexts is the number of different texts, estimated up to 266, that are duplicates of
	// one stored document of their own site: of the document with most. 0: fewer than 16.
	CrowdedTexts uint64 `json:"crowdedTexts,omitempty"`

	// Crowded is a message if there are such texts. It names the document and says what to do.
	Crowded string `json:"crowded,omitempty"`

	// CacheShort is a message if the cache is too small for the packed blocks, so that queries
	// read files. It gives a sufficient size.
	CacheShort string `json:"cacheShort,omitempty"`
}
