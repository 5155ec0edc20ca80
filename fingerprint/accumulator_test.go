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

func TestAccumulatorManyAdditions(t *testing.T) {
	const seed = 7
	rng := rand.New(rand.NewPCG(seed, 1))
	var a Accumulator
	var want sums
	for n := range 100_000 {
		// Few distinct bits a hash, so that components stay near zero and carries run far.
		h := rng.Uint64() & rng.Uint64()
		if n%2 == 0 {
			h = ^h
		}
		a.Add(h, 1)
		want.add(h, 1)
		if n%997 != 0 {
			continue
		}
		if got := a.Fingerprint(); got != want.fingerprint() {
			t.Fatalf("seed %d, after %d additions: got %v, want %v", seed, n+1, got, want.fingerprint())
		}
	}
}

func TestAccumulatorOrderDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 60).Draw(t, "n")
		hashes, weights := make([]uint64, n), make([]int, n)
		for i := range n {
			hashes[i], weights[i] = rapid.Uint64().Draw(t, "hash"), drawWeight(t)
		}
		order := rapid.Permutation(identity(n)).Draw(t, "order")
		var a, b Accumulator
		for i := range n {
			a.Add(hashes[i], weights[i])
			b.Add(hashes[order[i]], weights[order[i]])
		}
		if a.Fingerprint() != b.Fingerprint() {
			t.Fatalf("%v in one order, %v in another", a.Fingerprint(), b.Fingerprint())
		}
	})
}

func identity(n int) []int {
	p := make([]int, n)
	for i := range p {
		p[i] = i
	}
	return p
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
	a.Add(5, 3)
	a.Reset()
	if a != (Accumulator{}) {
		t.Error("Reset left something behind")
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
