package index

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// BenchmarkLiveFilterNear asks the filters of the default plan for a query's 66
// prefixes: an op is a query. Half of them are strangers, half are near.
func BenchmarkLiveFilterNear(b *testing.B) {
	plan := mustParse(b, livePlans[1])
	for _, n := range []int{0, 1000, 10_000, 60_000, 1_000_000} {
		b.Run(fmt.Sprintf("live=%d", n), func(b *testing.B) {
			fps := uniform(rand.New(rand.NewPCG(61, 0)), n)
			store := newLiveStore()
			f := store.filters(plan, 1<<30, 0, 0)
			defer f.close()
			for batch := range slices.Chunk(fps, 1000) {
				store.write(f, batch, nil, nil)
			}
			store.settle(b, f)
			queries := uniform(rand.New(rand.NewPCG(62, 0)), 1<<16)
			if n > 0 {
				queries = nearQueries(fps, 1<<16)
			}
			var dst []uint64
			left := 0
			b.ResetTimer()
			for i := range b.N {
				dst = dst[:0]
				q := queries[i&(len(queries)-1)]
				for t := range plan.Tables {
					dst = f.appendMaybe(dst, t, turn(q, 32*t), 1)
				}
				left += len(dst)
			}
			b.ReportMetric(float64(left)/float64(b.N), "left/op")
			b.ReportMetric(float64(f.bytes())/1024, "KiB")
		})
	}
}

// BenchmarkLiveFilterAdd fills filters for a million, again and again: an op is a
// fingerprint.
func BenchmarkLiveFilterAdd(b *testing.B) {
	plan, n := mustParse(b, livePlans[1]), 1<<20
	fps := uniform(rand.New(rand.NewPCG(63, 0)), n)
	for _, size := range []int{1, 100} {
		b.Run(fmt.Sprintf("batch=%d", size), func(b *testing.B) {
			for left := b.N; left > 0; left -= n {
				b.StopTimer()
				f := newLiveStore().filters(plan, 1<<30, 0, int64(n))
				b.StartTimer()
				for batch := range slices.Chunk(fps[:min(n, left)], size) {
					f.add(batch)
				}
				f.close()
			}
		})
	}
}

// BenchmarkLiveFilterOpen makes the filters of a million from a scan that costs
// nothing: an op is all of it.
func BenchmarkLiveFilterOpen(b *testing.B) {
	plan := mustParse(b, livePlans[1])
	store := newLiveStore(uniform(rand.New(rand.NewPCG(64, 0)), 1_000_000)...)
	for _, guess := range []int64{1, 1_000_000} {
		b.Run(fmt.Sprintf("guess=%d", guess), func(b *testing.B) {
			for b.Loop() {
				f := store.filters(plan, 1<<30, guess, 0)
				store.settle(b, f)
				f.close()
			}
		})
	}
}

func nearQueries(fps []uint64, n int) []uint64 {
	rng := rand.New(rand.NewPCG(32, 0))
	queries := make([]uint64, n)
	for i := range queries {
		queries[i] = rng.Uint64()
		if i&1 == 0 {
			queries[i] = flip(rng, fps[rng.IntN(len(fps))], ^uint64(0), rng.IntN(4))
		}
	}
	return queries
}

func turn(fp uint64, by int) uint64 { return fp<<by | fp>>(64-by) }
