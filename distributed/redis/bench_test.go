package redis

//lint:file-ignore SA3001 An operation is one document, and the benchmark sets b.N itself.

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
)

// BenchmarkCluster fills an index on three masters with one replica each, all on this machine,
// and queries it. In addition to the rates it reports the processor time of clients and servers,
// which means more on a shared machine.
//
//	go test -run '^$' -bench Cluster -benchtime 1x    # NEARDUP_LONG=1: a million documents
func BenchmarkCluster(b *testing.B) {
	for _, keyBytes := range []int{0, 60} {
		b.Run(fmt.Sprintf("key=%d", keyBytes), func(b *testing.B) {
			c := startCluster(b, b.TempDir(), 3, 1, 2*time.Second)
			x, err := Open(b.Context(), c.client(b),
				Options{Name: "bench", Bare: true, MaxDistance: 3})
			must(b, err)
			empty := used(b, x)
			n := rounds(200_000, 1_000_000)
			docs, next := made(keyBytes, n), made(keyBytes, n/10)
			b.Run("check-256-from-8", func(b *testing.B) {
				b.N = len(docs)
				measured(b, c, func() { inParallel(b, 8, docs, window, x) })
			})
			grown := used(b, x)
			_, err = x.Sweep(b.Context())
			must(b, err)
			perDocument := func(bytes uint64) float64 {
				return float64(bytes-empty) / float64(len(docs))
			}
			b.Run("query-256-from-8", func(b *testing.B) {
				b.N = len(docs)
				measured(b, c, func() { inParallel(b, 8, docs, window, nil, x) })
				b.ReportMetric(perDocument(grown), "B/document")
				b.ReportMetric(perDocument(used(b, x)), "B/document-swept")
			})
			b.Run("check-1-from-64", func(b *testing.B) {
				b.N = len(next)
				measured(b, c, func() { inParallel(b, 64, next, 1, x) })
			})
		})
	}
}

// made returns unrelated documents.
func made(keyBytes, n int) []index.Document {
	r := rand.New(rand.NewPCG(uint64(n), uint64(keyBytes)))
	docs := make([]index.Document, n)
	for i := range docs {
		docs[i].Fingerprint = fingerprint.Fingerprint(r.Uint64())
		if keyBytes > 0 {
			docs[i].Key = fmt.Sprintf("https://example.org/%0*d",
				keyBytes-len("https://example.org/"), r.Uint64()>>1)
		}
	}
	return docs
}

// inParallel checks documents with the first index, or queries the second.
func inParallel(b *testing.B, clients int, docs []index.Document, batch int, x ...*Index) {
	var wg sync.WaitGroup
	for i := range clients {
		part := docs[i*len(docs)/clients : (i+1)*len(docs)/clients]
		wg.Go(func() {
			for len(part) > 0 {
				n, err := min(batch, len(part)), error(nil)
				if x[0] != nil {
					_, err = x[0].checkAndAdd(b.Context(), part[:n])
				} else {
					queries := make([]index.Query, n)
					for j := range queries {
						queries[j].Signature = part[j].Signature()
					}
					_, err = x[1].QueryBatch(b.Context(), queries)
				}
				if part = part[n:]; err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func used(b *testing.B, x *Index) uint64 {
	s, err := x.Stats(b.Context())
	must(b, err)
	return s.UsedBytes
}

// measured reports processor time per operation, of this process and of the masters and replicas.
func measured(b *testing.B, c *servers, f func()) {
	client, server := processorTime(), c.processorTime(b)
	b.ResetTimer()
	f()
	b.StopTimer()
	perOp := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(b.N) }
	b.ReportMetric(perOp(processorTime()-client), "client-us/op")
	b.ReportMetric(perOp(c.processorTime(b)-server), "servers-us/op")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "op/s")
}

func processorTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func (c *servers) processorTime(b *testing.B) (sum time.Duration) {
	for _, s := range c.all {
		info := fields(s.client.Info(b.Context(), "cpu").Val())
		for _, name := range []string{"used_cpu_user", "used_cpu_sys"} {
			d, err := time.ParseDuration(info[name] + "s")
			must(b, err)
			sum += d
		}
	}
	return sum
}
