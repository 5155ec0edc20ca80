package fingerprint

import (
	"math/rand/v2"
	"testing"
)

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

func TestAddAllLengths(t *testing.T) {
	const seed = 12
	rng := rand.New(rand.NewPCG(seed, 0))
	var all Accumulator
	var wantAll sums
	for n := range 301 {
		var a Accumulator
		var want sums
		hashes := randomHashes(rng, n)
		a.addAll(hashes)
		all.addAll(hashes)
		for _, h := range hashes {
			want.add(h, 1)
			wantAll.add(h, 1)
		}
		want.equal(t, &a, "seed %d, length %d", seed, n)
		wantAll.equal(t, &all, "seed %d, all lengths to %d", seed, n)
	}
}

// TestAccumulatorMixed adds in all ways, more than blocks hold.
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
