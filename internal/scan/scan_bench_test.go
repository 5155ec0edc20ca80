package scan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// BenchmarkScan has half of the queries near to a fingerprint of the collection. The
// time is for a block of a million fingerprints; "M/s" is what counts.
func BenchmarkScan(b *testing.B) {
	const n = 1 << 20
	rng := rand.New(rand.NewPCG(1, 2))
	collection := make([]uint64, n)
	for i := range collection {
		collection[i] = rng.Uint64()
	}
	sorted := slices.Sorted(slices.Values(collection))
	for _, k := range []int{3, 0, 6} {
		for _, count := range []int{1, 1000, 100_000, 1_000_000} {
			queries := make([]uint64, count)
			for i := range queries {
				queries[i] = rng.Uint64()
				if i%2 == 1 {
					queries[i] = collection[rng.IntN(n)] ^ 1<<rng.IntN(64)
				}
			}
			if k == 6 && count > 1000 && testing.Short() {
				continue
			}
			var q *Queries
			b.Run(fmt.Sprintf("k=%d/queries=%d/new", k, count), func(b *testing.B) {
				for range b.N {
					q, _ = New(queries, k, 0)
				}
				b.ReportMetric(float64(bytesOf(q)>>20), "MiB")
			})
			for _, order := range []string{"random", "sorted"} {
				b.Run(fmt.Sprintf("k=%d/queries=%d/%s", k, count, order), func(b *testing.B) {
					if q == nil {
						q, _ = New(queries, k, 0)
					}
					fps := collection
					if order == "sorted" {
						fps = sorted
					}
					found := 0
					for range b.N {
						q.Scan(fps, func(Match) { found++ })
					}
					b.ReportMetric(float64(b.N)*n/b.Elapsed().Seconds()/1e6, "M/s")
					b.ReportMetric(float64(found)/float64(b.N), "matches")
				})
			}
		}
	}
}
