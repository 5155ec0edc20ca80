package index

import "github.com/neardup/neardup/store"

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
	NextID      uint64 `json:"nextID"`    // what the next document gets; NextID-1 have ever been added
	DiskBytes   uint64 `json:"diskBytes"` // with the write-ahead log
}

// Stats returns what there is to say of the index. It is cheap. After Close it is
// the zero Stats.
func (x *Index) Stats() Stats {
	x.lifeMu.Lock()
	defer x.lifeMu.Unlock()
	if x.closed {
		return Stats{}
	}
	x.commitMu.Lock()
	counters := x.counters
	x.commitMu.Unlock()
	header := x.store.Header()
	return Stats{
		MaxDistance: x.plan.MaxDistance,
		Plan:        header.Plan,
		Tables:      len(x.plan.Tables),
		Probes:      x.plan.Probes(),
		Analyzer:    header.Analyzer,
		Format:      store.Format,
		Documents:   counters.Documents,
		Bare:        counters.Bare,
		NextID:      counters.NextID,
		DiskBytes:   x.store.DiskBytes(),
	}
}
