package extsort

import (
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/neardup/neardup/internal/testing/testgen"
)

// TestMemoryBound measures the heap, including garbage, which is at most a tenth of the live
// heap. The tolerance is 10 % and 4 MiB.
func TestMemoryBound(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped with -short")
	}
	const (
		memory = 16 << 20
		n      = 2_000_000 // 32 MB
		batch  = 5000
	)
	defer debug.SetGCPercent(debug.SetGCPercent(10))
	for _, k := range testgen.Keys {
		t.Run(k.Name, func(t *testing.T) {
			random := rand.New(rand.NewPCG(8, 0))
			records := make([][2]uint64, batch)
			s := New[[2]uint64](Options{MemoryBytes: memory, Dir: t.TempDir()})
			defer s.Close()
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			base := m.HeapAlloc
			peak := base
			measure := func() {
				runtime.ReadMemStats(&m)
				peak = max(peak, m.HeapAlloc)
			}
			for at := range n / batch {
				for i := range records {
					records[i] = [2]uint64{k.Next(random, at*batch+i), 0}
				}
				must(t, s.Add(records...))
				if at%50 == 0 {
					measure()
				}
			}
			steps, got := 0, 0
			for run, err := range s.Sorted(t.Context()) {
				must(t, err)
				got += len(run)
				if steps++; steps%50 == 1 {
					measure()
				}
			}
			measure()
			if got != n {
				t.Fatalf("%d records, want %d", got, n)
			}
			if limit := uint64(memory + memory/10 + 4<<20); peak-base > limit {
				t.Errorf("%d bytes at the peak, the limit is %d", peak-base, limit)
			}
			t.Logf("%.1f MiB at the peak", float64(peak-base)/(1<<20))
		})
	}
}
