package fingerprint

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// naiveTally is the oracle: a map from the upper 48 bits to the count.
type naiveTally map[uint64]int

func (m naiveTally) addAll(hashes []uint64, most int) (chosen []uint64) {
	for _, h := range hashes {
		if m[h>>16] == 0 && len(m) == maxDistinct {
			continue
		}
		m[h>>16] = min(m[h>>16]+1, countMask)
		if m[h>>16] <= most {
			chosen = append(chosen, h)
		}
	}
	return chosen
}

// chosenNew is what stands at the places that addNew gives.
func chosenNew(t *tally, hashes []uint64) (chosen []uint64) {
	for _, i := range t.addNew(nil, hashes) {
		chosen = append(chosen, hashes[i])
	}
	return chosen
}

// TestTally runs one table through more texts than there are generations, with
// tables that grow several times.
func TestTally(t *testing.T) {
	const seed = 3
	rng := rand.New(rand.NewPCG(seed, 0))
	var tally, set tally
	for text := range 5000 {
		want, wantSet := naiveTally{}, naiveTally{}
		distinct := 1 + rng.IntN(200)
		if text%100 == 0 {
			distinct = 1 + rng.IntN(5000)
		}
		pool := make([]uint64, distinct)
		for i := range pool {
			pool[i] = rng.Uint64()
			if i > 0 && rng.IntN(20) == 0 {
				pool[i] = pool[i-1] ^ rng.Uint64N(1<<20) // near in the table, or the same in 48 bits
			}
		}
		most := 1 + rng.IntN(countMask-1)
		tally.begin(rng.IntN(distinct))
		set.begin(rng.IntN(distinct))
		for range 1 + rng.IntN(4) {
			hashes := make([]uint64, rng.IntN(2*distinct))
			for i := range hashes {
				hashes[i] = pool[rng.IntN(distinct)]
			}
			got, chosen := tally.addAll(nil, hashes, uint64(most)), want.addAll(hashes, most)
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

func TestTallyIsBounded(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 0))
	var tally, set tally
	tally.begin(0)
	set.begin(0)
	want := naiveTally{}
	hashes := make([]uint64, 1000)
	for n := 0; n < maxDistinct+20_000; n += len(hashes) {
		for i := range hashes {
			hashes[i] = rng.Uint64()
		}
		hashes[7] = hashes[3]
		chosen := want.addAll(hashes, 1)
		if !slices.Equal(tally.addAll(nil, hashes, 1), chosen) || !slices.Equal(chosenNew(&set, hashes), chosen) {
			t.Fatalf("after %d hashes", n)
		}
	}
	if tally.used != maxDistinct || len(tally.slots) > 2*maxDistinct {
		t.Errorf("%d of %d slots used, want %d", tally.used, len(tally.slots), maxDistinct)
	}
	tally.begin(10)
	if len(tally.buffer) > keptSlots {
		t.Errorf("keeps %d slots", cap(tally.buffer))
	}
}
