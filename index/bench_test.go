package index

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/internal/plan"
	"github.com/neardup/neardup/internal/testgen"
)

// built keeps indexes between the runs of one benchmark at different b.N.
var built = struct {
	sync.Mutex
	of map[string]*Index
}{of: make(map[string]*Index)}

// uniformIndex returns an index of n uniform fingerprints under a plan.
func uniformIndex(b *testing.B, p *plan.Plan, n int) *Index {
	b.Helper()
	built.Lock()
	defer built.Unlock()
	name := fmt.Sprint(p, n)
	if built.of[name] == nil {
		x, err := Open("index", &Options{Plan: p, Durability: NoSync, FS: vfs.NewMem()})
		if err != nil {
			b.Fatal(err)
		}
		fill(b, x, testgen.Uniform(rand.New(rand.NewPCG(1, 1)), n), 10_000)
		built.of[name] = x
	}
	return built.of[name]
}

// BenchmarkScan gives what a probe costs, and from the difference between prefixes
// what each candidate adds: the constants in choose.go.
func BenchmarkScan(b *testing.B) {
	const n = 500_000
	p := mustPlan(b, "4", 3)
	x := uniformIndex(b, p, n)
	for _, prefix := range []int{32, 16, 12, 9} {
		b.Run(fmt.Sprintf("prefix=%d", prefix), func(b *testing.B) {
			v, err := x.store.View()
			if err != nil {
				b.Fatal(err)
			}
			defer v.Close()
			rng := rand.New(rand.NewPCG(2, 2))
			candidates := 0
			for b.Loop() {
				first := rng.Uint64() >> (64 - prefix) << (64 - prefix)
				err := v.Scan(1, first, first|^uint64(0)>>prefix, func(uint64) bool { candidates++; return true })
				if err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(candidates)/float64(b.N), "candidates/op")
		})
	}
}

// BenchmarkScanAfterDelete probes a table of which all but one in a thousand
// fingerprints have just been deleted.
func BenchmarkScanAfterDelete(b *testing.B) {
	ctx := context.Background()
	x := openMem(b, Options{Plan: mustPlan(b, "4", 3), Durability: NoSync})
	fps := testgen.Uniform(rand.New(rand.NewPCG(1, 1)), 100_000)
	fill(b, x, fps, 10_000)
	if _, err := x.DeleteBefore(ctx, time.Now().Add(time.Hour)); err != nil {
		b.Fatal(err)
	}
	fill(b, x, fps[:100], 100)
	rng := rand.New(rand.NewPCG(2, 2))
	for b.Loop() {
		if _, err := x.Query(ctx, nearTo(fingerprint.Fingerprint(rng.Uint64()))); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkQuery(b *testing.B) {
	sizes := []int{10_000, 100_000}
	if long() {
		sizes = append(sizes, 1_000_000)
	}
	for _, n := range sizes {
		for _, d := range []string{"2", "3", "4", "10", "16", "20"} {
			benchmarkQuery(b, d, mustPlan(b, d, 3), n)
		}
	}
}

// benchmarkQuery asks for strangers and for neighbours at distance 0 to 3, half of each.
func benchmarkQuery(b *testing.B, name string, p *plan.Plan, n int) {
	b.Run(fmt.Sprintf("n=%d/design=%s", n, name), func(b *testing.B) {
		x := uniformIndex(b, p, n)
		fps := testgen.Uniform(rand.New(rand.NewPCG(1, 1)), n)
		rng := rand.New(rand.NewPCG(2, 2))
		found := 0
		for b.Loop() {
			fp := rng.Uint64()
			if rng.IntN(2) == 0 {
				fp = testgen.Flip(rng, fps[rng.IntN(n)], ^uint64(0), rng.IntN(4))
			}
			matches, err := x.Query(context.Background(), nearTo(fingerprint.Fingerprint(fp)))
			if err != nil {
				b.Fatal(err)
			}
			found += len(matches)
		}
		b.ReportMetric(float64(found)/float64(b.N), "matches/op")
		b.ReportMetric(p.Estimate(int64(n), plan.Costs{}, 0).Candidates, "candidates/op")
	})
}

func BenchmarkCheckAndAdd(b *testing.B) {
	ctx := context.Background()
	open := func(b *testing.B) *Index {
		x := openMem(b, Options{Durability: NoSync})
		fill(b, x, testgen.Uniform(rand.New(rand.NewPCG(1, 1)), 100_000), 10_000)
		return x
	}
	b.Run("new", func(b *testing.B) {
		x, rng := open(b), rand.New(rand.NewPCG(3, 3))
		for i := 0; b.Loop(); i++ {
			d := Document{Key: fmt.Sprint(i), Fingerprint: fingerprint.Fingerprint(rng.Uint64())}
			if v, err := x.CheckAndAdd(ctx, d); err != nil || v.Status != New {
				b.Fatal(v, err)
			}
		}
	})
	b.Run("duplicate", func(b *testing.B) {
		x, rng := open(b), rand.New(rand.NewPCG(3, 3))
		fps := testgen.Uniform(rand.New(rand.NewPCG(1, 1)), 100_000)
		for i := 0; b.Loop(); i++ {
			fp := testgen.Flip(rng, fps[rng.IntN(len(fps))], ^uint64(0), rng.IntN(4))
			v, err := x.CheckAndAdd(ctx, Document{Key: fmt.Sprint(i), Fingerprint: fingerprint.Fingerprint(fp)})
			if err != nil || v.Status != Duplicate {
				b.Fatal(v, err)
			}
		}
	})
	b.Run("batch", func(b *testing.B) { // an op is 256 documents, half of them duplicates
		x, rng := open(b), rand.New(rand.NewPCG(3, 3))
		for b.Loop() {
			fps := testgen.Uniform(rng, 256)
			for i := 1; i < len(fps); i += 2 {
				fps[i] = testgen.Flip(rng, fps[i-1], ^uint64(0), 2)
			}
			if _, err := x.CheckAndAddBatch(ctx, bareDocuments(fps)); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkAdd adds to an index on disk: an op is one document.
func BenchmarkAdd(b *testing.B) {
	for _, durability := range []Durability{Sync, NoSync} {
		for _, batch := range []int{1, 100, 10_000} {
			b.Run(fmt.Sprintf("%s/batch=%d", map[Durability]string{Sync: "sync", NoSync: "nosync"}[durability], batch), func(b *testing.B) {
				x, err := Open(b.TempDir(), &Options{Durability: durability})
				if err != nil {
					b.Fatal(err)
				}
				defer x.Close()
				rng := rand.New(rand.NewPCG(4, 4))
				for i := 0; i < b.N; i += batch {
					docs := bareDocuments(testgen.Uniform(rng, min(batch, b.N-i)))
					for j := range docs {
						docs[j].Key = fmt.Sprint("https://www.example.org/", i+j)
					}
					if err := x.Add(context.Background(), docs...); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkOpen opens and closes an empty index on disk.
func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir()
	for b.Loop() {
		x, err := Open(dir, nil)
		if err != nil {
			b.Fatal(err)
		}
		if err := x.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
