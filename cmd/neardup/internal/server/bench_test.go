package server

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/neardup/neardup"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
)

// BenchmarkCheck checks random fingerprints durably from 64 goroutines: with an index in the
// process, and through a server in the process, with one or with 256 documents per call.
func BenchmarkCheck(b *testing.B) {
	for _, size := range []int{1, 256} {
		x := open(b, nil)
		b.Run(fmt.Sprint(size, "/embedded"), func(b *testing.B) { benchmarkCheck(b, size, x) })
		b.Run(fmt.Sprint(size, "/served"), func(b *testing.B) {
			_, address := serve(b, open(b, nil), Options{})
			benchmarkCheck(b, size, dial(b, address, nil))
		})
	}
}

func benchmarkCheck(b *testing.B, size int, to neardup.Checker) {
	b.SetParallelism(max(1, 64/runtime.GOMAXPROCS(0)))
	var callers atomic.Uint64
	b.RunParallel(func(pb *testing.PB) {
		rng := rand.New(rand.NewPCG(callers.Add(1), rand.Uint64()))
		for more := true; more; {
			var docs []index.Document
			for len(docs) < size && more {
				if more = pb.Next(); more {
					docs = append(docs, index.Document{Tokens: 100,
						Key:         fmt.Sprintf("https://www.example.com/%x", rng.Uint64()),
						Fingerprint: fingerprint.Fingerprint(rng.Uint64())})
				}
			}
			if _, err := to.CheckDocuments(b.Context(), docs); err != nil {
				b.Error(err)
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "documents/s")
}
