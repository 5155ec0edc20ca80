package store

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"os"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/neardup/neardup/internal/store/block"
)

// BenchmarkPackedProbe looks for what is within 3 bits of a query among the
// fingerprints that share its leading 32 bits, all blocks cached: Find, Block and
// Lows. A query in two has a fingerprint to find. Each probe waits for the one
// before, as those of a query do in the end; the blocks are chosen at random.
func BenchmarkPackedProbe(b *testing.B) {
	for _, million := range []int{1, 10} {
		if million > 1 && os.Getenv("NEARDUP_LONG") == "" {
			continue
		}
		b.Run(fmt.Sprintf("fingerprints=%dM", million), func(b *testing.B) {
			fps := randomFingerprints(million*1_000_000, 1)
			p := storeTable(b, 1, fps, nil, block.DefaultBytes).open(b, newBlockCache(4<<30))
			warm(b, p)
			queries := randomFingerprints(1<<20, 2)
			random := rand.New(rand.NewPCG(3, 0))
			for i := range queries {
				if queries[i] = random.Uint64(); i%2 == 0 {
					queries[i] = fps[random.IntN(len(fps))] ^ 1<<random.IntN(32)
				}
			}
			b.Run("one", func(b *testing.B) {
				at, found := 0, 0
				for b.Loop() {
					n, err := probePacked(p, queries[at])
					if err != nil {
						b.Fatal(err)
					}
					found += n
					at = (at + 1 + n>>30) % len(queries) // waits for n
				}
				b.ReportMetric(float64(found)/float64(b.N), "found/op")
			})
			b.Run("parallel", func(b *testing.B) {
				var begin atomic.Int64
				b.RunParallel(func(pb *testing.PB) {
					at := int(begin.Add(1)) * len(queries) / 7 % len(queries)
					for pb.Next() {
						n, err := probePacked(p, queries[at])
						if err != nil {
							b.Error(err)
							return
						}
						at = (at + 1 + n>>30) % len(queries)
					}
				})
			})
		})
	}
}

// probePacked counts the fingerprints that share the leading 32 bits of query and
// differ from it in at most 3 bits.
func probePacked(p *PackedTable, query uint64) (found int, err error) {
	first := query >> 32 << 32
	last := first | (1<<32 - 1)
	for i := p.Find(first); i < p.Blocks(); i++ {
		b, err := p.Block(i)
		if err != nil {
			return 0, err
		}
		lows, from, to, ok := b.LowBits(first, last)
		if !ok {
			return 0, fmt.Errorf("block %d has no low bits", i)
		}
		low := query & lows.Mask()
		for ; from < to; from++ {
			if bits.OnesCount64(lows.At(from)^low) <= 3 && bits.OnesCount64(b.At(from)^query) <= 3 {
				found++
			}
		}
		if p.Last(i) >= last {
			break
		}
	}
	return found, nil
}

func randomFingerprints(n int, seed uint64) []uint64 {
	random := rand.New(rand.NewPCG(seed, 0))
	fps := make([]uint64, n)
	for i := range fps {
		fps[i] = random.Uint64()
	}
	slices.Sort(fps)
	return slices.Compact(fps)
}

func warm(tb testing.TB, p *PackedTable) {
	for i := range p.Blocks() {
		if _, err := p.Block(i); err != nil {
			tb.Fatal(err)
		}
	}
}
