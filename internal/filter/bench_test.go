package filter

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/neardup/neardup/internal/testing/testgen"
)

// nearQueries are strangers, and fingerprints 0 to 3 flips from a stored one, by turns.
func nearQueries(fps []uint64, n int) []uint64 {
	rng := rand.New(rand.NewPCG(32, 0))
	queries := make([]uint64, n)
	for i := range queries {
		queries[i] = rng.Uint64()
		if i&1 == 0 {
			queries[i] = testgen.Flip(rng, fps[rng.IntN(len(fps))], ^uint64(0), rng.IntN(4))
		}
	}
	return queries
}

// BenchmarkFilterNear asks the filter of a table for neighbourhoods: an op is one. left/op
// is the probes that remain; of these, those of a bit array are true.
func BenchmarkFilterNear(b *testing.B) {
	const n = 10_000_000
	fps := testgen.Uniform(rand.New(rand.NewPCG(31, 0)), n)
	queries := nearQueries(fps, 1<<16)
	for _, c := range []struct{ prefix, each, radius int }{
		{32, 8, 1}, {32, 12, 1}, {32, 16, 1}, {32, 20, 1}, {32, 20, 2}, {24, 16, 1}, {24, 32, 1}, {64, 20, 0},
	} {
		f := fit(c.prefix, n, n/8*int64(c.each))
		f.AddAll(fps)
		b.Run(fmt.Sprintf("p=%d/r=%d/bits=%d", c.prefix, c.radius, c.each), func(b *testing.B) {
			var dst []uint64
			left := 0
			for i := range b.N {
				dst = f.AppendCandidates(dst[:0], queries[i&(len(queries)-1)], c.radius)
				left += len(dst)
			}
			b.ReportMetric(float64(left)/float64(b.N), "left/op")
		})
	}
}

// BenchmarkSet adds to the filters of two tables, in batches, and asks them for the 66
// prefixes of a query: an op is a fingerprint.
func BenchmarkSet(b *testing.B) {
	for _, n := range []int{1000, 60_000, 1_000_000, 10_000_000} {
		fps := testgen.Uniform(rand.New(rand.NewPCG(61, 0)), n)
		b.Run(fmt.Sprintf("add/n=%d", n), func(b *testing.B) {
			for left := b.N; left > 0; left -= n {
				s := NewSet(Options{Tables: tablesOf(setPlans[1]), Budget: 1 << 30})
				for batch := range slices.Chunk(fps[:min(n, left)], 100) {
					s.Add(batch...)
				}
			}
		})
		s := NewSet(Options{Tables: tablesOf(setPlans[1]), Budget: 1 << 30})
		s.Add(fps...)
		queries := nearQueries(fps, 1<<16)
		b.Run(fmt.Sprintf("near/n=%d", n), func(b *testing.B) {
			var dst []uint64
			left := 0
			for i := range b.N {
				dst = dst[:0]
				for t := range s.tables {
					dst = s.AppendCandidates(dst, t, s.tables[t].Permute(queries[i&(len(queries)-1)]))
				}
				left += len(dst)
			}
			b.ReportMetric(float64(left)/float64(b.N), "left/op")
			b.ReportMetric(float64(s.Bytes())/float64(n), "B/fingerprint")
		})
	}
}
