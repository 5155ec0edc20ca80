package fingerprint

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// counters is the oracle: 64 signed counters of any size, one bit at a time.
type counters [64]big.Int

func (c *counters) add(hash uint64, weight int) {
	w := big.NewInt(int64(weight))
	for i := range c {
		if hash>>i&1 == 1 {
			c[i].Add(&c[i], w)
		} else {
			c[i].Sub(&c[i], w)
		}
	}
}

func (c *counters) fingerprint() Fingerprint {
	var f Fingerprint
	for i := range c {
		if c[i].Sign() >= 0 {
			f |= 1 << i
		}
	}
	return f
}

func drawWeight(t *rapid.T) int {
	return rapid.OneOf(
		rapid.Just(1), rapid.Just(1), rapid.Just(1),
		rapid.IntRange(-20, 20),
		rapid.IntRange(math.MinInt/1024, math.MaxInt/1024), // of 100 the sum is exact
		rapid.SampledFrom([]int{math.MaxInt32, math.MinInt32, 1 << 30, -1 << 31}),
	).Draw(t, "weight")
}

func TestAccumulatorEqualsCounters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var a Accumulator
		var want counters
		pool := rapid.SliceOfN(rapid.Uint64(), 1, 8).Draw(t, "hashes")
		for range rapid.IntRange(0, 100).Draw(t, "additions") {
			h, w := rapid.SampledFrom(pool).Draw(t, "hash"), drawWeight(t)
			a.Add(h, w)
			want.add(h, w)
			if rapid.IntRange(0, 9).Draw(t, "all") == 0 {
				hashes := rapid.SliceOfN(rapid.SampledFrom(pool), 0, 2*blockSize+1).Draw(t, "slice")
				a.addAll(hashes)
				for _, h := range hashes {
					want.add(h, 1)
				}
			}
			if rapid.IntRange(0, 9).Draw(t, "look") == 0 && a.Fingerprint() != want.fingerprint() {
				t.Fatalf("between additions: got %v, want %v", a.Fingerprint(), want.fingerprint())
			}
		}
		if a.Fingerprint() != want.fingerprint() {
			t.Fatalf("got %v, want %v", a.Fingerprint(), want.fingerprint())
		}
	})
}

func TestAccumulatorZeroComponent(t *testing.T) {
	var a Accumulator
	if got := a.Fingerprint(); got != math.MaxUint64 {
		t.Errorf("empty: %v, want all ones", got)
	}
	a.Add(0x00ff, 1)
	a.Add(0xff00, 1)
	if got := a.Fingerprint(); got != 0xffff {
		t.Errorf("a component of 0 must give 1: got %v", got)
	}
	a.Add(0x00ff, -1)
	a.Add(0xff00, -1)
	if got := a.Fingerprint(); got != math.MaxUint64 {
		t.Errorf("all taken back: %v, want all ones", got)
	}
}

func TestAccumulatorLargestWeights(t *testing.T) {
	var a Accumulator
	a.Add(1, math.MinInt)
	a.Add(2, math.MaxInt)
	// The components of bits 0 and 1 are -2^64+1 and 2^64-1, all others 1.
	if got, want := a.Fingerprint(), Fingerprint(math.MaxUint64-1); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

// equal holds that a simhash has these sums, and not only their signs.
func (s *sums) equal(t *testing.T, a *Accumulator, format string, args ...any) {
	t.Helper()
	for i, want := range s {
		if got := component(a, i); got != want {
			t.Fatalf(format+": component %d is %d, want %d", append(args, i, got, want)...)
		}
	}
}

// component is the sum in one bit, of fewer than 2^31 additions of weight 1.
func component(a *Accumulator, bit int) int64 {
	counter := int64(0)
	for k := range 63 {
		counter += int64(a.planes[k]>>bit&1) << k
	}
	return 2*counter - int64(a.total)
}

// randomHashes has bits that are mostly 1 in some counters and mostly 0 in others, so
// that carries run far in some and not in others.
func randomHashes(rng *rand.Rand, n int) []uint64 {
	ones, zeros := rng.Uint64()&rng.Uint64(), rng.Uint64()&rng.Uint64()
	hashes := make([]uint64, n)
	for i := range hashes {
		hashes[i] = (rng.Uint64() | ones) &^ zeros
	}
	return hashes
}

// TestAccumulatorMixed adds in all ways, by whole blocks and parts of one.
func TestAccumulatorMixed(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 13))
		var a Accumulator
		var want sums
		for step := range 60 {
			switch hashes := randomHashes(rng, rng.IntN(1<<rng.IntN(13))); rng.IntN(4) {
			case 0:
				weight := rng.IntN(2000) - 1000
				for _, h := range hashes[:len(hashes)%100] {
					a.Add(h, weight)
					want.add(h, weight)
				}
			case 1:
				for _, h := range hashes {
					a.Add(h, 1)
					want.add(h, 1)
				}
			default:
				a.addAll(hashes)
				for _, h := range hashes {
					want.add(h, 1)
				}
			}
			want.equal(t, &a, "seed %d, step %d", seed, step)
			if b := a; rng.IntN(4) == 0 && (a.Fingerprint() != want.fingerprint() || b.Fingerprint() != want.fingerprint()) {
				t.Fatalf("seed %d, step %d: %v, of a copy %v, want %v", seed, step, a.Fingerprint(), b.Fingerprint(), want.fingerprint())
			}
		}
	}
}
