package fingerprint

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/neardup/neardup/internal/testing/testenv"
)

// TestShinglesEstimateJaccard tests that the mean distance of two sets of Jaccard similarity J is
// 128(1-J). Its spread must be only a little larger than with 256 independent samples, also if
// many bins are empty.
func TestShinglesEstimateJaccard(t *testing.T) {
	pairs := testenv.Number(1000, 10_000, 10_000, 10_000)
	rng := rand.New(rand.NewPCG(5, 6))
	signature := func(hashes []uint64) ShingleSignature {
		var b shingleBins
		b.reset()
		for _, h := range hashes {
			b.add(h)
		}
		return b.signature()
	}
	for _, c := range []struct{ both, each int }{
		{0, 1}, {1, 1}, {2, 1}, {5, 1}, {5, 3}, {8, 4}, {16, 4}, {30, 4}, {40, 20}, {76, 4},
		{97, 3}, {100, 40}, {196, 4}, {300, 30}, {1000, 100},
	} {
		var sum, squares float64
		for range pairs {
			all := make([]uint64, c.both+2*c.each)
			for i := range all {
				all[i] = rng.Uint64()
			}
			d := float64(signature(all[:c.both+c.each]).Distance(signature(all[c.each:])))
			sum += d
			squares += d * d
		}
		j := float64(c.both) / float64(c.both+2*c.each)
		mean, want := sum/float64(pairs), 128*(1-j)
		deviation := math.Sqrt(squares/float64(pairs) - mean*mean)
		independent := math.Sqrt(256 * (1 - j) / 2 * (1 + j) / 2)
		t.Logf("%4d shingles, J = %.3f: distance %6.2f, want %6.2f, standard deviation %5.2f, "+
			"with independent samples %5.2f", c.both+c.each, j, mean, want, deviation, independent)
		if math.Abs(mean-want) > 5*deviation/math.Sqrt(float64(pairs)) {
			t.Errorf("%+v: mean distance %.2f, want %.2f", c, mean, want)
		}
		if deviation > 1.1*independent {
			t.Errorf("%+v: standard deviation %.2f, with independent samples %.2f", c,
				deviation, independent)
		}
	}
}
