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

// Query selects the stored documents near a fingerprint. The comment of index.Query describes its
// fields.
type Query struct {
	fingerprint.Signature
	Scope       string
	MaxDistance int
	Limit       int
}

// Exact as a MaxDistance selects only equal fingerprints.
const Exact = -1

// Within returns the distance within which a query searches an index with the given k. It returns
// ErrDistance if MaxDistance is invalid, and another error if Limit is negative.
func (q *Query) Within(k int) (int, error) {
	switch {
	case q.Limit < 0:
		return 0, fmt.Errorf("query: Limit is %d, want 0 for all matches, or more", q.Limit)
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

// Stats describes an index. The comment of index.Stats describes its fields.
type Stats struct {
	MaxDistance      int    `json:"maxDistance"`
	Plan             string `json:"plan"`
	Tables           int    `json:"tables"`
	Probes           int    `json:"probes"`
	Analyzer         string `json:"analyzer,omitempty"`
	Format           int    `json:"format"`
	Documents        uint64 `json:"documents"`
	Bare             uint64 `json:"bare"`
	NextID           uint64 `json:"nextID"`
	DiskBytes        uint64 `json:"diskBytes"`
	Generation       uint64 `json:"generation"`
	Packed           uint64 `json:"packed"`
	Live             uint64 `json:"live"`
	Removed          uint64 `json:"removed"`
	FilterBytes      uint64 `json:"filterBytes"`
	DirectoryBytes   uint64 `json:"directoryBytes"`
	CachedBytes      uint64 `json:"cachedBytes"`
	StoreCachedBytes uint64 `json:"storeCachedBytes"`
	Expired          uint64 `json:"expired,omitempty"`
	CrowdedTexts     uint64 `json:"crowdedTexts,omitempty"`
	Crowded          string `json:"crowded,omitempty"`
	CacheShort       string `json:"cacheShort,omitempty"`
}
