//go:build unix

package server

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/neardup/neardup"
	"github.com/neardup/neardup/client"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
)

// BenchmarkCheck checks random fingerprints durably from 64 goroutines: with an index in the
// process, and through a server in the process, with one or with 256 documents per call. The
// processor time includes the client, the server, and about 0.3 µs per document to make it.
func BenchmarkCheck(b *testing.B) {
	for _, size := range []int{1, 256} {
		for _, served := range []bool{false, true} {
			where := "embedded"
			if served {
				where = "served"
			}
			b.Run(fmt.Sprintf("%d/%s", size, where),
				func(b *testing.B) { benchmarkCheck(b, size, served) })
		}
	}
}

func benchmarkCheck(b *testing.B, size int, served bool) {
	x, err := neardup.Open(b.TempDir(), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer x.Close()
	var to neardup.Checker = x
	if served {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		s := New(x, Options{})
		go s.Serve(l)
		defer s.Shutdown(context.Background())
		c, err := client.Open(b.Context(), "http://"+l.Addr().String(), nil)
		if err != nil {
			b.Fatal(err)
		}
		defer c.Close()
		to = c
	}
	var documents atomic.Int64
	const callers = 64
	took := make([][]time.Duration, callers)
	b.ResetTimer()
	before := processorTime(b)
	done := make(chan error, callers)
	for caller := range callers {
		go func() {
			rng := rand.New(rand.NewPCG(uint64(caller), 1))
			var err error
			for err == nil && documents.Add(int64(size)) <= int64(b.N) {
				docs := make([]index.Document, size)
				for i := range docs {
					docs[i] = index.Document{Key: fmt.Sprintf("https://www.example.com/%d/%x",
						caller, rng.Uint64()), Fingerprint: fingerprint.Fingerprint(rng.Uint64()),
						Tokens: 100}
				}
				begun := time.Now()
				_, err = to.CheckDocuments(b.Context(), docs)
				took[caller] = append(took[caller], time.Since(begun))
			}
			done <- err
		}()
	}
	for range callers {
		if err := <-done; err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "documents/s")
	b.ReportMetric(float64((processorTime(b)-before).Microseconds())/float64(b.N),
		"cpu-µs/document")
	if all := slices.Sorted(slices.Values(slices.Concat(took...))); len(all) > 0 {
		b.ReportMetric(all[len(all)*99/100].Seconds()*1000, "p99-ms")
	}
}

func processorTime(b *testing.B) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
