package figure

import "testing"

// TestDistribution tests that a fingerprint is counted in its bucket, and at the highest bit in
// which it differs from its lower neighbour.
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
