package fingerprint

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// naiveCounter is the oracle: a map from the upper 48 bits to the count.
type naiveCounter map[uint64]int

func (m naiveCounter) addAll(hashes []uint64, most int) (chosen []uint64) {
	for _, h := range hashes {
		m[h>>16] = min(m[h>>16]+1, countMask)
		if m[h>>16] <= most {
			chosen = append(chosen, h)
		}
	}
	return chosen
}

// chosenNew is what stands at the places that addNew gives.
func chosenNew(t *hashCounter, hashes []uint64) (chosen []uint64) {
	for _, i := range t.addNew(nil, hashes) {
		chosen = append(chosen, hashes[i])
	}
	return chosen
}

// TestHashCounter runs one table through more texts than there are generations, with
// tables that grow several times.
func TestHashCounter(t *testing.T) {
	const seed = 3
	rng := rand.New(rand.NewPCG(seed, 0))
	var counter, set hashCounter
	for text := range 5000 {
		want, wantSet := naiveCounter{}, naiveCounter{}
		distinct := 1 + rng.IntN(200)
		if text%100 == 0 {
			distinct = 1 + rng.IntN(5000)
		}
		pool := hashPool(rng, distinct)
		most := 1 + rng.IntN(countMask-1)
		counter.begin(rng.IntN(distinct))
		set.begin(rng.IntN(distinct))
		for range 1 + rng.IntN(4) {
			hashes := draw(rng, pool, rng.IntN(2*distinct))
			got, chosen := counter.addAll(nil, hashes, uint64(most)), want.addAll(hashes, most)
			if !slices.Equal(got, chosen) {
				t.Fatalf("seed %d, text %d: chose %d of %d hashes, want %d", seed, text, len(got), len(hashes), len(chosen))
			}
			got, chosen = chosenNew(&set, hashes), wantSet.addAll(hashes, 1)
			if !slices.Equal(got, chosen) {
				t.Fatalf("seed %d, text %d: %d of %d hashes are new, want %d", seed, text, len(got), len(hashes), len(chosen))
			}
		}
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
	b := *a
	b.gather()
	counter := int64(0)
	for k := range 63 {
		counter += int64(b.planes[k]>>bit&1) << k
	}
	return 2*counter - int64(b.lo)
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
