package filter

import (
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/neardup/neardup/internal/testing/testgen"
	"pgregory.net/rapid"
)

func nearOf(fps []uint64, fp uint64, k int) []uint64 {
	var near []uint64
	for _, other := range fps {
		if bits.OnesCount64(fp^other) <= k {
			near = append(near, other)
		}
	}
	slices.Sort(near)
	return slices.Compact(near)
}

// TestMultiIndexFindsAll compares a search with a scan of all fingerprints, before and after the
// tables exist. Some fingerprints are repeated, and some share blocks.
func TestMultiIndexFindsAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		rng := rand.New(rand.NewPCG(seed, 0))
		h := newMultiIndex(1 << 40)
		n := rapid.SampledFrom([]int{0, 1, maxFew, maxFew + 1, 2 * maxFew}).Draw(t, "n")
		same := rapid.SampledFrom([]uint64{0, 0xffff, 0xffff_0000_ffff,
			0xffff_ffff_ffff_0000}).Draw(t, "same in all")
		fps := testgen.Uniform(rng, n)
		for i := range fps {
			fps[i] &^= same
			if i%3 == 2 {
				fps[i] = testgen.Flip(rng, fps[i-1], ^uint64(0), rng.IntN(20))
			}
		}
		if rapid.Bool().Draw(t, "filled") {
			distinct := slices.Compact(slices.Sorted(slices.Values(fps)))
			h.Fill(distinct[:rng.IntN(len(distinct)+1)])
		}
		for part := range slices.Chunk(slices.Concat(fps, fps[:n/2]), 1000) {
			h.Add(part)
		}
		for range 20 {
			k := rng.IntN(maxDistance + 1)
			q := rng.Uint64() &^ same
			if n > 0 && rng.IntN(4) > 0 {
				q = testgen.Flip(rng, fps[rng.IntN(n)], ^uint64(0), rng.IntN(k+2))
			}
			found, known := h.AppendNear(nil, q, k)
			slices.Sort(found)
			if want := nearOf(fps, q, k); !known || !slices.Equal(found, want) {
				t.Fatalf("seed %d: %016x within %d: %016x (known is %v), want %016x", seed, q, k,
					found, known, want)
			}
			if got, want := h.MayContain(q), slices.Contains(fps, q); got != want {
				t.Fatalf("seed %d: MayContain(%016x) is %v, want %v", seed, q, got, want)
			}
		}
	})
}

// TestMultiIndexOfOneBlock uses fingerprints that all share one block. A search for this block must
// stop early and return false. A search for another block must succeed.
func TestMultiIndexOfOneBlock(t *testing.T) {
	h := newMultiIndex(1 << 40)
	fps := testgen.Uniform(rand.New(rand.NewPCG(1, 1)), 2*maxCompared)
	for i := range fps {
		fps[i] &^= 0xffff
	}
	h.Add(fps)
	if near, known := h.AppendNear([]uint64{7}, fps[0], 3); known ||
		!slices.Equal(near, []uint64{7}) {
		t.Errorf("in the shared block: %x, %v", near, known)
	}
	if near, known := h.AppendNear(nil, fps[0]|1, 3); !known || !slices.Contains(near, fps[0]) {
		t.Errorf("in another block: %x, %v", near, known)
	}
	if !h.MayContain(fps[1]) || h.MayContain(fps[1]|1) {
		t.Error("a fingerprint is missing or unexpected")
	}
}
