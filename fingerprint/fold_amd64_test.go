//go:build !purego

package fingerprint

import (
	"math/rand/v2"
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
}
