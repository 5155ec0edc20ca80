package filter

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/neardup/neardup/internal/testgen"
)

// filterKeys keeps the fingerprints of the last size, and filterOf the filters of
// the last kind, between the runs of one benchmark.
var filterKeys, filterOf struct {
	name    string
	fps     []uint64
	filters []*Prefix
}

func keysFor(n int) []uint64 {
	if name := fmt.Sprint(n); filterKeys.name != name {
		filterOf.filters, filterOf.name = nil, "" // before the next one takes memory
		filterKeys.name, filterKeys.fps = name, testgen.Uniform(rand.New(rand.NewPCG(31, 0)), n)
	}
	return filterKeys.fps
}

// filtersFor returns the filters of some tables that hold n fingerprints, where
// table i has the fingerprint turned left by i*prefix bits.
func filtersFor(b *testing.B, n, tables, prefix int, budget int64) []*Prefix {
	b.Helper()
	fps := keysFor(n)
	if name := fmt.Sprint(n, tables, prefix, budget); filterOf.name != name {
		filterOf.filters = nil
		for i := range tables {
			f := mustFilter(b, prefix, int64(n), budget)
			batch := make([]uint64, 0, 4096)
			for _, fp := range fps {
				if batch = append(batch, turn(fp, i*prefix)); len(batch) == cap(batch) {
					f.AddAll(batch)
					batch = batch[:0]
				}
			}
			f.AddAll(batch)
			filterOf.filters = append(filterOf.filters, f)
		}
		filterOf.name = name
	}
	return filterOf.filters
}

func turn(fp uint64, by int) uint64 { return fp<<by | fp>>(64-by) }

// BenchmarkFilterNear asks all tables of a query for its neighbourhood: half of the
// queries are strangers, half are 0 to 3 flips from a stored fingerprint. left/op
// is the probes that remain; of these, those of a bit array are true.
func BenchmarkFilterNear(b *testing.B) {
	for _, n := range []int{10_000_000, 100_000_000} {
		for _, each := range []int{8, 12, 16, 24, 32} {
			benchmarkNear(b, n, 2, 32, each, 1)
		}
		benchmarkNear(b, n, 2, 32, 0, 1)
		for _, each := range []int{8, 16} {
			benchmarkNear(b, n, 1, 24, each, 1)
		}
		for _, prefix := range []int{16, 20, 24, 28} {
			benchmarkNear(b, n, 1, prefix, 0, 1)
		}
		benchmarkNear(b, n, 2, 32, 16, 2)
	}
}

// benchmarkNear measures filters with so many bits each fingerprint, 0: bit arrays.
func benchmarkNear(b *testing.B, n, tables, prefix, each, radius int) {
	budget, form := int64(n)/8*int64(each), fmt.Sprintf("blocked-%d", each)
	if each == 0 {
		budget, form = int64(1)<<prefix/8, "array"
	}
	for _, goroutines := range []int{1, 2} {
		b.Run(fmt.Sprintf("n=%dM/tables=%d/p=%d/r=%d/%s/goroutines=%d", n/1_000_000, tables, prefix, radius, form, goroutines), func(b *testing.B) {
			if testing.Short() && n > 10_000_000 {
				b.Skip("building 100 M takes long")
			}
			var filters []*Prefix
			if each == 0 { // also where a blocked filter would be chosen
				filters = arraysFor(b, n, tables, prefix)
			} else {
				filters = filtersFor(b, n, tables, prefix, budget)
			}
			queries := nearQueries(keysFor(n), 1<<16)
			left := make([]int, goroutines)
			b.ResetTimer()
			var wg sync.WaitGroup
			for g := range goroutines {
				wg.Go(func() {
					var dst []uint64
					sum := 0
					for i := g; i < b.N; i += goroutines {
						dst = dst[:0]
						q := queries[i&(len(queries)-1)]
						for t, f := range filters {
							dst = f.AppendCandidates(dst, turn(q, t*prefix), radius)
						}
						sum += len(dst)
					}
					left[g] = sum
				})
			}
			wg.Wait()
			sum := 0
			for _, l := range left {
				sum += l
			}
			b.ReportMetric(float64(sum)/float64(b.N), "left/op")
			b.ReportMetric(float64(filters[0].stats().Bytes)/(1<<20), "MiB/table")
		})
	}
}

// arraysFor is filtersFor with bit arrays, whatever n is.
func arraysFor(b *testing.B, n, tables, prefix int) []*Prefix {
	fps := keysFor(n)
	if name := fmt.Sprint(n, tables, prefix, "array"); filterOf.name != name {
		filterOf.filters = nil
		for i := range tables {
			lines, _ := arrayLines(prefix)
			f := newFilter(prefix, filterBits, 0, lines)
			for _, fp := range fps {
				f.Add(turn(fp, i*prefix))
			}
			filterOf.filters = append(filterOf.filters, f)
		}
		filterOf.name = name
	}
	return filterOf.filters
}

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

// BenchmarkFilterAdd adds to a filter for 10 M fingerprints: an op is one of them.
func BenchmarkFilterAdd(b *testing.B) {
	const n = 10_000_000
	fps := keysFor(n)
	b.Run("one", func(b *testing.B) {
		f := mustFilter(b, 32, n, n*2)
		for i := range b.N {
			f.Add(fps[i%n])
		}
	})
	b.Run("all", func(b *testing.B) {
		f := mustFilter(b, 32, n, n*2)
		for i := 0; i < b.N; i += 4096 {
			at := i % (n - 4096)
			f.AddAll(fps[at:][:4096])
		}
	})
}

// BenchmarkFilterSave saves and loads a filter of 20 MB: an op is all of it.
func BenchmarkFilterSave(b *testing.B) {
	const n = 10_000_000
	f := filtersFor(b, n, 1, 32, n*2)[0]
	b.SetBytes(f.stats().Bytes)
	for b.Loop() {
		if _, err := LoadPrefix(32, n*2, chunksOf(f)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFilterStats(b *testing.B) {
	f := filtersFor(b, 10_000_000, 1, 32, 20_000_000)[0]
	for b.Loop() {
		f.stats()
	}
}
