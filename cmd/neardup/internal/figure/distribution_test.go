package figure

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// A fingerprint is counted in its bucket, and at the highest bit in which it differs
// from its lower neighbour.
func TestDistribution(t *testing.T) {
	d := NewDistribution([]uint64{0, 1, 3, 1 << 57, 1<<63 | 5, 1<<63 | 7})
	var leading [64]int
	leading[0], leading[1], leading[57], leading[63] = 1, 2, 1, 1
	if d.LeadingBits != leading {
		t.Errorf("leading bits %v", d.LeadingBits)
	}
	var buckets [128]int
	buckets[0], buckets[1], buckets[64] = 3, 1, 2
	if d.Buckets != buckets || d.Fingerprints != 6 {
		t.Errorf("%d fingerprints in buckets %v", d.Fingerprints, d.Buckets)
	}
}

// Even fingerprints give the figure of the paper: a peak at 64 - log2 n.
func TestDistributionOfEvenFingerprints(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 0))
	fps := make([]uint64, 1<<16)
	for i := range fps {
		fps[i] = rng.Uint64()
	}
	slices.Sort(fps)
	d := NewDistribution(fps)
	peak, sum := 0, 0
	for i, n := range d.LeadingBits {
		sum += n
		if n > d.LeadingBits[peak] {
			peak = i
		}
	}
	if sum != len(fps)-1 || peak < 46 || peak > 49 {
		t.Errorf("%d neighbours, the most at bit %d", sum, peak)
	}
	if most := slices.Max(d.Buckets[:]); most > 700 {
		t.Errorf("%d of %d fingerprints in one of 128 buckets", most, len(fps))
	}
}
