package beam

import "math"

// Estimate is what Pairs takes for uniform fingerprints (docs/scale.md).
type Estimate struct {
	Groups     int     // of a table, one for each million fingerprints
	Blobs      float64 // that are shuffled
	Shuffled   float64 // bytes, written once and read once
	GroupBytes float64 // of memory for one group under way
	Processor  float64 // seconds of a core, Prism's own part included
}

const (
	// blobOverhead is how many bits a fingerprint takes in a blob above what tells so many apart.
	blobOverhead = 2.4
	// processorSeconds is for one fingerprint and one table, of 2.45 GHz.
	processorSeconds = 0.29e-6
)

// EstimateOf reckons what Pairs takes for n fingerprints in bundles that are as large as they
// get, and with Groups of 0 in as many groups as are good for them.
func EstimateOf(n int64, o Options) Estimate {
	groups := min(max(o.Groups, 1), maxGroups)
	for o.Groups == 0 && int64(groups)*1_000_000 < n && groups < maxGroups {
		groups *= 2
	}
	t := tablesFor(o.MaxDistance, groups)
	packed := float64(min(n, mostPending))
	bits := max(64-math.Log2(packed), 0) + blobOverhead
	e := Estimate{Groups: 1 << t.Bits, Shuffled: float64(n) * float64(t.N) * bits / 8}
	e.Blobs = float64(e.Groups*t.N) * math.Ceil(float64(n)/packed)
	e.GroupBytes = float64(n) / float64(e.Groups) * groupBytes
	e.Processor = float64(n) * float64(t.N) * processorSeconds
	return e
}
