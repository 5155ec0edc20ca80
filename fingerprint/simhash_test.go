package fingerprint

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// counters is the oracle: 64 signed counters, one bit at a time.
type counters [64]int

func (c *counters) add(hash uint64, weight int) {
	for i := range c {
		if hash>>i&1 == 1 {
			c[i] += weight
		} else {
			c[i] -= weight
		}
	}
}

func (c *counters) fingerprint() (f Fingerprint) {
	for i := range c {
		if c[i] >= 0 {
			f |= 1 << i
		}
	}
	return f
}

func TestAccumulatorEqualsCounters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var a Accumulator
		var want counters
		weights := rapid.OneOf(rapid.Just(1), rapid.IntRange(-20, 20),
			rapid.IntRange(math.MinInt/1024, math.MaxInt/1024), // a sum of 100 weights is exact
			rapid.SampledFrom([]int{math.MaxInt32, math.MinInt32, 1 << 30}))
		pool := rapid.SliceOfN(rapid.Uint64(), 1, 8).Draw(t, "hashes")
		for range rapid.IntRange(0, 100).Draw(t, "additions") {
			h, w := rapid.SampledFrom(pool).Draw(t, "hash"), weights.Draw(t, "weight")
			a.Add(h, w)
			want.add(h, w)
			if a.Fingerprint() != want.fingerprint() {
				t.Fatalf("got %v, want %v", a.Fingerprint(), want.fingerprint())
			}
		}
	})
}

// TestLargestWeights tests that a component may exceed 64 bits. The components of bits 0 and 1 are
// -2^64+1 and 2^64-1, and all others are 1.
func TestLargestWeights(t *testing.T) {
	var a Accumulator
	a.Add(1, math.MinInt)
	a.Add(2, math.MaxInt)
	if got := a.Fingerprint(); got != math.MaxUint64-1 {
		t.Errorf("got %v", got)
	}
}
