//go:build unix

package server

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/neardup/neardup"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
)

// BenchmarkCheck checks random fingerprints durably from 64 goroutines: with an index in the
// process, and through a server in the process, with one or with 256 documents per call. The
// processor time includes the client, the server, and about 0.3 µs per document to make it.
func BenchmarkCheck(b *testing.B) {
	for _, size := range []int{1, 256} {
		for _, where := range []string{"embedded", "served"} {
			b.Run(fmt.Sprint(size, "/", where), func(b *testing.B) {
				x := open(b, nil)
				var to neardup.Checker = x
				if where == "served" {
					_, address := serve(b, x, Options{})
					to = dial(b, address, nil)
				}
				benchmarkCheck(b, size, to)
			})
		}
	}
}

func benchmarkCheck(b *testing.B, size int, to neardup.Checker) {
	b.SetParallelism(max(1, 64/runtime.GOMAXPROCS(0)))
	var callers atomic.Uint64
	var mu sync.Mutex
	var took []time.Duration
	b.ResetTimer()
	before := processorTime(b)
	b.RunParallel(func(pb *testing.PB) {
		caller := callers.Add(1)
		rng := rand.New(rand.NewPCG(caller, 1))
		for more := true; more; {
			var docs []index.Document
			for len(docs) < size && more {
				if more = pb.Next(); more {
					docs = append(docs, index.Document{Tokens: 100,
						Key:         fmt.Sprintf("https://www.example.com/%d/%x", caller, rng.Uint64()),
						Fingerprint: fingerprint.Fingerprint(rng.Uint64())})
				}
			}
			begun := time.Now()
			if _, err := to.CheckDocuments(b.Context(), docs); err != nil {
				b.Error(err)
			}
			mu.Lock()
			took = append(took, time.Since(begun))
			mu.Unlock()
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "documents/s")
	b.ReportMetric(float64((processorTime(b)-before).Microseconds())/float64(b.N),
		"cpu-µs/document")
	slices.Sort(took)
	b.ReportMetric(took[len(took)*99/100].Seconds()*1000, "p99-ms")
}

func processorTime(b *testing.B) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
