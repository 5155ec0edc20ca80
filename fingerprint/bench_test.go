package fingerprint

import (
	"math/rand/v2"
	"testing"
)

func BenchmarkAccumulator(b *testing.B) {
	const n = 4096
	rng := rand.New(rand.NewPCG(1, 2))
	hashes, weights := make([]uint64, n), make([]int, n)
	for i := range hashes {
		hashes[i], weights[i] = rng.Uint64(), 1+rng.IntN(40)
	}
	// One op is one feature: b.Loop would keep Add from being inlined.
	b.Run("weight=1", func(b *testing.B) {
		var a Accumulator
		b.ReportAllocs()
		for i := range b.N {
			a.Add(hashes[i%n], 1)
		}
	})
	b.Run("weight=1..40", func(b *testing.B) {
		var a Accumulator
		b.ReportAllocs()
		for i := range b.N {
			a.Add(hashes[i%n], weights[i%n])
		}
	})
	b.Run("fingerprint", func(b *testing.B) {
		var a Accumulator
		for _, h := range hashes[:1000] {
			a.Add(h, 1)
		}
		b.ReportAllocs()
		for b.Loop() {
			a.Fingerprint()
		}
	})
}
