package extsort

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/neardup/neardup/internal/radix"
	"github.com/neardup/neardup/internal/testing/testgen"
)

// benchmarkSorter times Add in batches of 4096 and Sorted to its end, making the
// keys outside of that.
func benchmarkSorter[R radix.Record](b *testing.B, n int, memory int64, next func(*rand.Rand, int) uint64) {
	batch := make([]R, 4096)
	var adding, sorting time.Duration
	for b.Loop() {
		random := rand.New(rand.NewPCG(9, 0))
		s := New[R](Options{MemoryBytes: memory, Dir: b.TempDir()})
		for at := 0; at < n; at += len(batch) {
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
		for _, err := range s.Sorted(b.Context()) {
			if err != nil {
				b.Fatal(err)
			}
		}
		sorting += time.Since(start)
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
	millions := float64(n) * float64(b.N) / 1e6
	b.ReportMetric(millions/(adding+sorting).Seconds(), "Mrecords/s")
	b.ReportMetric(millions/adding.Seconds(), "Madded/s")
	b.ReportMetric(millions/sorting.Seconds(), "Msorted/s")
	b.ReportMetric(0, "ns/op")
}

// 10 million keys of each kind, in memory and with about a twelfth of it.
func BenchmarkSorter(b *testing.B) {
	for _, k := range testgen.Keys {
		for name, memory := range map[string]int64{"memory": 1 << 30, "spilled": 32 << 20} {
			b.Run("bytes=8/"+k.Name+"/"+name, func(b *testing.B) { benchmarkSorter[[1]uint64](b, 10_000_000, memory, k.Next) })
			b.Run("bytes=16/"+k.Name+"/"+name, func(b *testing.B) { benchmarkSorter[[2]uint64](b, 10_000_000, memory, k.Next) })
		}
	}
}
