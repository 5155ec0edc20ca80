package filter

import (
	"math/bits"
	"math/rand/v2"
	"slices"
	"sync"
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
				t.Fatalf("seed %d: %016x is there: %v, want %v", seed, q, got, want)
			}
		}
	})
}

// TestMultiIndexGivesUp tests that an index that exceeds its memory is empty and reports that.
func TestMultiIndexGivesUp(t *testing.T) {
	rng := rand.New(rand.NewPCG(81, 0))
	for _, limit := range []int64{-1, 0, 1000, 8 * maxFew, hashTablesBytes + 1<<20} {
		h := newMultiIndex(limit)
		if h.Fill(testgen.Uniform(rng, 4*maxFew)); h.Bytes() > max(0, limit) {
			t.Fatalf("%d bytes of %d", h.Bytes(), limit)
		}
		h = newMultiIndex(limit)
		for known := true; known; {
			fps := testgen.Uniform(rng, 500)
			h.Add(fps)
			if h.Bytes() > max(0, limit) {
				t.Fatalf("%d bytes of %d", h.Bytes(), limit)
			}
			_, known = h.AppendNear(nil, fps[0], 6)
			if !known && (h.Bytes() != 0 || !h.MayContain(rng.Uint64())) {
				t.Fatalf("given up, with %d bytes", h.Bytes())
			}
		}
	}
}

// TestMultiIndexUnderWork adds and searches concurrently. A search must find all fingerprints
// that were added before it began, also while tables replace the list and when the index gives
// up.
func TestMultiIndexUnderWork(t *testing.T) {
	fps, filled := testgen.Uniform(rand.New(rand.NewPCG(82, 0)), 2*maxFew),
		testgen.Uniform(rand.New(rand.NewPCG(83, 0)), 2*maxFew)
	for _, limit := range []int64{1 << 40, 8 * maxFew / 2,
		hashTablesBytes + 8*hashBlocks*(maxFew+maxFew/2)} {
		h := newMultiIndex(limit)
		h.Add(fps[:1])
		var wg sync.WaitGroup
		wg.Go(func() {
			h.Fill(filled)
			for _, fp := range filled[:100] {
				if found, known := h.AppendNear(nil, fp^3, 4); known &&
					!slices.Contains(found, fp) || !h.MayContain(fp) {
					t.Errorf("at most %d bytes: %016x was filled in and is not found", limit, fp)
				}
			}
		})
		for part := range slices.Chunk(fps, len(fps)/4) {
			wg.Go(func() {
				for some := range slices.Chunk(part, 64) {
					h.Add(some)
					for _, fp := range []uint64{fps[0], some[0], some[len(some)-1]} {
						if found, known := h.AppendNear(nil, fp^5, 4); known &&
							!slices.Contains(found, fp) || !h.MayContain(fp) {
							t.Errorf(
								"at most %d bytes: %016x was added and is not found", limit, fp)
						}
					}
				}
			})
		}
		wg.Wait()
		found, known := h.AppendNear(nil, 0, 16)
		if known != (limit == 1<<40) {
			t.Errorf("at most %d bytes: known is %v", limit, known)
		}
		if known && !slices.Equal(slices.Sorted(slices.Values(found)),
			nearOf(slices.Concat(fps, filled), 0, 16)) {
			t.Error("not the added fingerprints")
		}
	}
}

// TestMultiIndexOfOneBlock uses fingerprints of which nearly all share one block. A search for
// that block must stop early and report that. Searches that meet few of these fingerprints must
// work.
func TestMultiIndexOfOneBlock(t *testing.T) {
	h := newMultiIndex(1 << 40)
	fps := testgen.Uniform(rand.New(rand.NewPCG(1, 1)), 2*maxCompared)
	for i := range fps {
		fps[i] &^= 0xffff
	}
	h.Add(fps)
	if near, known := h.AppendNear([]uint64{7}, fps[0], 3); known ||
		!slices.Equal(near, []uint64{7}) {
		t.Errorf("in the block of all: %x, %v", near, known)
	}
	if near, known := h.AppendNear(nil, fps[0]|1, 3); !known || !slices.Contains(near, fps[0]) {
		t.Errorf("in another block: %x, %v", near, known)
	}
	if !h.MayContain(fps[1]) || h.MayContain(fps[1]|1) {
		t.Error("a fingerprint is missing or unexpected")
	}
}
