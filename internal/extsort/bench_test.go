package extsort

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/neardup/neardup/internal/testgen"
)

// benchmarkSorter times Add in batches of 4096 and Sorted to its end, making the
// keys outside of that.
func benchmarkSorter[R Record](b *testing.B, n int, memory int64, next func(*rand.Rand, int) uint64) {
	batch := make([]R, 4096)
	dir := b.TempDir()
	var adding, sorting time.Duration
	for b.Loop() {
		random := rand.New(rand.NewPCG(9, 0))
		s := New[R](Options{MemoryBytes: memory, Dir: dir})
		for at := 0; at < n; at += len(batch) {
			batch = batch[:min(cap(batch), n-at)]
			for i := range batch {
				batch[i] = testgen.RecordOf[R](next(random, at+i), uint64(at+i))
			}
			start := time.Now()
			if err := s.Add(b.Context(), batch); err != nil {
				b.Fatal(err)
			}
			adding += time.Since(start)
		}
		start := time.Now()
		got, last := 0, uint64(0)
		for run, err := range s.Sorted(b.Context()) {
			if err != nil {
				b.Fatal(err)
			}
			if run[0][0] < last {
				b.Fatal("runs out of order")
			}
			last = run[len(run)-1][0]
			got += len(run)
		}
		sorting += time.Since(start)
		if got != n {
			b.Fatalf("%d records, want %d", got, n)
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		batch = batch[:cap(batch)]
	}
	millions := float64(n) * float64(b.N) / 1e6
	b.ReportMetric(millions/(adding+sorting).Seconds(), "Mrecords/s")
	b.ReportMetric(millions/adding.Seconds(), "Madded/s")
	b.ReportMetric(millions/sorting.Seconds(), "Msorted/s")
	b.ReportMetric(0, "ns/op")
}

// Random keys, in memory and with about a twelfth of it.
func BenchmarkSorter(b *testing.B) {
	for _, c := range []struct {
		name   string
		n      int
		memory int64
	}{
		{"n=1M/memory", 1_000_000, 1 << 30},
		{"n=10M/memory", 10_000_000, 1 << 30},
		{"n=10M/spilled", 10_000_000, 32 << 20},
		{"n=100M/spilled", 100_000_000, 256 << 20},
	} {
		b.Run("bytes=8/"+c.name, func(b *testing.B) { benchmarkSorter[[1]uint64](b, c.n, c.memory, testgen.Keys[0].Next) })
		b.Run("bytes=16/"+c.name, func(b *testing.B) { benchmarkSorter[[2]uint64](b, c.n, c.memory, testgen.Keys[0].Next) })
	}
}

// Skewed keys, 10 million of 16 bytes.
func BenchmarkSkewed(b *testing.B) {
	for _, k := range testgen.Keys[1:] {
		b.Run(k.Name+"/memory", func(b *testing.B) { benchmarkSorter[[2]uint64](b, 10_000_000, 1<<30, k.Next) })
		b.Run(k.Name+"/spilled", func(b *testing.B) { benchmarkSorter[[2]uint64](b, 10_000_000, 32<<20, k.Next) })
	}
}
