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
		pool := hashPool(rng, distinct)
		most := 1 + rng.IntN(countMask-1)
		tally.begin(rng.IntN(distinct))
		set.begin(rng.IntN(distinct))
		for range 1 + rng.IntN(4) {
			hashes := draw(rng, pool, rng.IntN(2*distinct))
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

// TestCounts and TestSet hold that what is counted does not depend on who has a slot: the
// tables are as small as they come, and run through more texts than there are
// generations.
func TestCounts(t *testing.T) {
	const seed = 4
	rng := rand.New(rand.NewPCG(seed, 0))
	var c counts
	all := hashPool(rng, 3*minSlots)
	for text := range 200 {
		pool, most := all[rng.IntN(len(all)):], 1+rng.IntN(countMask-1)
		if text < 100 { // what these leave in the table is there when their generations come again
			pool, most = all[:40], 1
		}
		if text%10 == 3 {
			c.generation = 1<<16 - 3<<countBits
		}
		c.begin(rng.IntN(2 * minSlots))
		tally := naiveTally{}
		var got Accumulator
		var want sums
		for range 1 + rng.IntN(4) {
			hashes := draw(rng, pool, rng.IntN(len(pool)/2+1))
			got.addAll(hashes)
			c.takeOff(&got, hashes, uint64(most))
			for _, h := range tally.addAll(hashes, most) {
				want.add(h, 1)
			}
			want.equal(t, &got, "seed %d, text %d", seed, text)
		}
	}
}

// TestCapped has texts in which no word, some words and words of one sum come too often.
func TestCapped(t *testing.T) {
	const seed = 7
	rng := rand.New(rand.NewPCG(seed, 0))
	var c capped
	beyond := 0
	for text := range 400 {
		pool, most := hashPool(rng, 1+rng.IntN(3000)), 1+rng.IntN(countMask-1)
		if text%3 == 0 {
			for i := range pool {
				pool[i] = pool[i]<<sumBits>>sumBits | rng.Uint64N(4)<<(64-sumBits) // four sums
			}
		}
		size := 1 + rng.IntN(longText+longText/8)
		c.begin(size, uint64(most))
		tally := naiveTally{}
		var got Accumulator
		var want sums
		for left := min(size, longText-1); left > 0 && rng.IntN(5) > 0; {
			hashes := draw(rng, pool, rng.IntN(min(left, 2000)+1))
			left -= len(hashes)
			c.addTo(&got, hashes)
			for _, h := range tally.addAll(hashes, most) {
				want.add(h, 1)
			}
		}
		if !c.long && uint64(c.largest) > c.most {
			beyond++
		}
		c.end(&got)
		want.equal(t, &got, "seed %d, text %d, at most %d of each", seed, text, most)
	}
	if beyond < 50 {
		t.Errorf("words are counted one by one in %d texts, want many", beyond)
	}
}

func TestSet(t *testing.T) {
	const seed = 6
	rng := rand.New(rand.NewPCG(seed, 0))
	var s set
	all := hashPool(rng, 3*minSlots)
	for text := range 200 {
		pool := all[rng.IntN(len(all)):]
		if text < 100 {
			pool = all[:40]
		}
		if text%10 == 3 {
			s.generation = 1<<16 - 3
		}
		s.begin(rng.IntN(2 * minSlots))
		tally := naiveTally{}
		var got, gotBeside Accumulator
		var want, wantBeside sums
		for range 1 + rng.IntN(4) {
			hashes := draw(rng, pool, rng.IntN(len(pool)/2+1))
			beside := make([]uint64, len(hashes))
			for i, h := range hashes {
				beside[i] = mix(h)
			}
			if text%2 == 0 {
				s.addTo(&got, nil, hashes, beside)
			} else {
				s.addTo(&got, &gotBeside, hashes, beside)
			}
			for _, h := range tally.addAll(hashes, 1) {
				want.add(h, 1)
				if text%2 == 1 {
					wantBeside.add(mix(h), 1)
				}
			}
			want.equal(t, &got, "seed %d, text %d", seed, text)
			wantBeside.equal(t, &gotBeside, "seed %d, text %d, beside", seed, text)
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
