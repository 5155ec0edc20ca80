//go:build amd64 && !purego

package fingerprint

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestAVX2EqualsPortable(t *testing.T) {
	if !useAVX2 {
		t.Skip("no AVX2")
	}
	const seed = 14
	rng := rand.New(rand.NewPCG(seed, 0))
	for blocks := 1; blocks <= maxInLanes/blockSize+1; blocks++ {
		// Of any alignment, and with what is beyond the last plane lost.
		hashes := randomHashes(rng, blocks*blockSize+4)[rng.IntN(5):][:blocks*blockSize]
		var got lanes
		for k := range got {
			copy(got[k][:], randomHashes(rng, len(got[k])))
		}
		want := got
		addAVX2(&got, hashes)
		want.addPortable(hashes)
		if got != want {
			t.Fatalf("seed %d, %d blocks: the lanes differ", seed, blocks)
		}
	}
}

func TestNotZerosAVX2EqualsPortable(t *testing.T) {
	if !useAVX2 {
		t.Skip("no AVX2")
	}
	const seed = 15
	rng := rand.New(rand.NewPCG(seed, 0))
	b := make([]byte, 64*40+63)
	for i := range b {
		b[i] = byte(rng.Uint32()) & -byte(rng.IntN(2)) & -byte(rng.IntN(2))
	}
	for blocks := 1; blocks <= 40; blocks++ {
		got, want := make([]uint64, blocks+1), make([]uint64, blocks+1)
		from := b[rng.IntN(64):] // of any alignment
		notZerosAVX2(got[:blocks], from)
		notZerosPortable(want[:blocks], from)
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d, %d blocks: %x, want %x", seed, blocks, got, want)
		}
	}
}

func TestWithoutAVX2(t *testing.T) {
	if !useAVX2 {
		t.Skip("the other tests are without")
	}
	useAVX2 = false
	defer func() { useAVX2 = true }()
	t.Run("lanes", TestLanes)
	t.Run("lengths", TestAddAllLengths)
	t.Run("mixed", TestAccumulatorMixed)
	t.Run("many", TestAccumulatorManyAdditions)
	t.Run("tokens", TestTokensOfRandomText)
	t.Run("runs", TestRunsWithoutSeparators)
}
