package fingerprint

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// naiveCounter is the oracle: a map from the upper 48 bits to the count.
type naiveCounter map[uint64]uint8

func (m naiveCounter) count(counts []uint8, hashes []uint64) {
	for i, h := range hashes {
		m[h>>16] = min(m[h>>16]+1, maxCount)
		counts[i] = m[h>>16]
	}
}

// TestHashCounter runs one table through more texts than there are generations, with
// tables that grow several times.
func TestHashCounter(t *testing.T) {
	const seed = 3
	rng := rand.New(rand.NewPCG(seed, 0))
	var counter hashCounter
	for text := range 5000 {
		want := naiveCounter{}
		distinct := 1 + rng.IntN(200)
		if text%100 == 0 {
			distinct = 1 + rng.IntN(5000)
		}
		pool := hashPool(rng, distinct)
		counter.begin(rng.IntN(distinct))
		for range 1 + rng.IntN(4) {
			hashes := draw(rng, pool, rng.IntN(2*distinct))
			got, wanted := make([]uint8, len(hashes)), make([]uint8, len(hashes))
			counter.count(got, hashes)
			want.count(wanted, hashes)
			if !slices.Equal(got, wanted) {
				t.Fatalf("seed %d, text %d: counts of %d hashes differ", seed, text, len(hashes))
			}
		}
	}
}

// hashPool has hashes of which some share a slot, and some agree in 48 bits.
func hashPool(rng *rand.Rand, n int) []uint64 {
	pool := make([]uint64, n)
	for i := range pool {
		pool[i] = rng.Uint64()
		if i > 0 {
			switch rng.IntN(20) {
			case 0:
				pool[i] = pool[i-1] ^ rng.Uint64N(1<<20)
			case 1:
				pool[i] = pool[i-1] ^ rng.Uint64N(1<<50)
			case 2:
				pool[i] = rng.Uint64N(1 << 17) // the lowest slot, and a hash part of 0
			}
		}
	}
	return pool
}

func draw(rng *rand.Rand, pool []uint64, n int) []uint64 {
	hashes := make([]uint64, n)
	for i := range hashes {
		hashes[i] = pool[rng.IntN(len(pool))]
	}
	return hashes
}
