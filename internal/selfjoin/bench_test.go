package selfjoin

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// BenchmarkPairs gives the time for a collection in memory, sorting included.
func BenchmarkPairs(b *testing.B) {
	for _, shape := range shapes[:2] {
		for _, n := range []int{100_000, 1_000_000, 10_000_000} {
			for _, k := range []int{3, 6} {
				if n > 1_000_000 && (k > 3 || testing.Short()) {
					continue
				}
				b.Run(fmt.Sprintf("%s/n=%d/k=%d", shape.name, n, k), func(b *testing.B) {
					fps := shape.make(rand.New(rand.NewPCG(1, 1)), n)
					for b.Loop() {
						s := newSet(b, slices.Clone(fps))
						must(b, s.Each(context.Background(), Options{MaxDistance: k}, func(int, []Pair) error { return nil }))
					}
				})
			}
		}
	}
}
