package block

import (
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"
)

// The benchmarks read a stretch of a large table: consecutive values at the
// density of 100 million random 64-bit ones, 48 MiB of them as plain values.
const (
	benchValues  = 6 << 20
	benchDensity = 100_000_000
)

var benchFingerprints = sync.OnceValue(func() []uint64 {
	return sparseValues(benchValues, benchDensity, 1)
})

// sparseValues returns n consecutive values of a table that has total random ones.
func sparseValues(n, total int, seed uint64) []uint64 {
	random := rand.New(rand.NewPCG(seed, 0))
	mean := math.Exp2(64) / float64(total)
	values := make([]uint64, n)
	at := uint64(0x9e37) << 40
	for i := range values {
		at += 1 + uint64(random.ExpFloat64()*mean)
		values[i] = at
	}
	return values
}

// packSideBySide packs a table, and moves its blocks together in memory.
func packSideBySide(b *testing.B, size int, fps []uint64) (blocks [][]byte) {
	arena := make([]byte, 0, len(fps)*8)
	for _, data := range pack(b, size, fps, nil) {
		arena = append(arena, data...)
		blocks = append(blocks, arena[len(arena)-len(data):len(arena):len(arena)])
	}
	return blocks
}

// blockProbe is a range within one block, and a fingerprint to compare with.
type blockProbe struct {
	block              []byte
	first, last, query uint64
}

// probesOf returns ranges that hold about the given number of candidates, one at least, with
// borders at multiples of a power of two of an eighth to a quarter of the range; none if there are no such.
func probesOf(b *testing.B, blocks [][]byte, candidates float64) []blockProbe {
	random := rand.New(rand.NewPCG(2, 0))
	span := uint64(candidates * math.Exp2(64) / benchDensity)
	unit := bits.Len64(span) - 3
	units := span >> unit
	probes := make([]blockProbe, 1<<16)
	for i := range probes {
		for tries := 0; ; tries++ {
			data := blocks[random.IntN(len(blocks))]
			block := openBlock(b, data)
			first := (block.At(random.IntN(block.Len()))>>unit - random.Uint64N(units)) << unit
			last := first + units<<unit - 1
			if first >= block.First() && last <= block.Last() {
				probes[i] = blockProbe{data, first, last, random.Uint64()}
				break
			}
			if tries == 1000 {
				return nil // too many for a block of this size
			}
		}
	}
	return probes
}

const benchDistance = 3

// The ways to find what is near the query in a block. Each returns the number of fingerprints looked at.
var probeWays = map[string]func(p *blockProbe, buf *[]uint64) (seen int){
	"lows": func(p *blockProbe, _ *[]uint64) int {
		var b Block
		if b.Open(p.block) != nil {
			panic("open")
		}
		lows, from, to, _ := b.LowBits(p.first, p.last)
		query := p.query & lows.Mask()
		for i := from; i < to; i++ {
			if bits.OnesCount64(lows.At(i)^query) <= benchDistance && bits.OnesCount64(b.At(i)^p.query) <= benchDistance {
				found++
			}
		}
		return to - from
	},
	"append": func(p *blockProbe, buf *[]uint64) int {
		var b Block
		if b.Open(p.block) != nil {
			panic("open")
		}
		*buf, _ = b.AppendRange((*buf)[:0], p.first, p.last)
		for _, fp := range *buf {
			if bits.OnesCount64(fp^p.query) <= benchDistance {
				found++
			}
		}
		return len(*buf)
	},
}

var found int // so that nothing is left out

// BenchmarkBlockProbe opens a block chosen at random and looks for what is within
// 3 bits of a query in a range of it: in all blocks (cold: more than an L2 cache)
// and in 16 of them (warm). ns/op is of 256 probes; ns/probe is that of the median
// of such runs, which other work on the machine disturbs less.
func BenchmarkBlockProbe(b *testing.B) {
	const run = 256
	for _, size := range []int{512, 1024, 2048, 4096} {
		blocks := packSideBySide(b, size, benchFingerprints())
		for _, candidates := range []float64{1, 10, 150} {
			for cache, some := range map[string][][]byte{"warm": blocks[:16], "cold": blocks} {
				probes := probesOf(b, some, candidates)
				if probes == nil {
					continue
				}
				for way, probe := range probeWays {
					b.Run(fmt.Sprintf("bytes=%d/candidates=%v/%s/%s", size, candidates, cache, way), func(b *testing.B) {
						var buf []uint64
						var times []time.Duration
						total, at := 0, 0
						for b.Loop() {
							begin := time.Now()
							for range run {
								total += probe(&probes[at%len(probes)], &buf)
								at++
							}
							times = append(times, time.Since(begin))
						}
						slices.Sort(times)
						b.ReportMetric(float64(times[len(times)/2].Nanoseconds())/run, "ns/probe")
						b.ReportMetric(float64(total)/float64(at), "candidates/probe")
					})
				}
			}
		}
	}
}

// BenchmarkBlockWrite packs a million fingerprints an operation.
func BenchmarkBlockWrite(b *testing.B) {
	const n = 1_000_000
	fps, ids := benchFingerprints()[:n], benchIDs(n)
	for _, postings := range [][]IDs{nil, ids} {
		b.Run(fmt.Sprintf("postings=%v", postings != nil), func(b *testing.B) {
			for b.Loop() {
				pack(b, 0, fps, postings)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/fingerprint")
		})
	}
}

func benchIDs(n int) []IDs {
	random := rand.New(rand.NewPCG(3, 0))
	ids := make([]IDs, n)
	for i := range ids {
		ids[i] = NewIDs(1 + random.Uint64N(benchDensity))
	}
	return ids
}

// BenchmarkBlockSize packs tables and reports the bits a fingerprint, also as a
// multiple of the entropy of so many random fingerprints, 64 - log2 n + 1.44 bits.
func BenchmarkBlockSize(b *testing.B) {
	for _, density := range []int{1e6, 1e7, 1e8, 1e9} {
		fps := sparseValues(800_000, density, 1)
		entropy := 64 - math.Log2(float64(density)) + 1/math.Ln2
		for _, size := range []int{512, 1024, 2048, 4096} {
			b.Run(fmt.Sprintf("density=%.0g/bytes=%d", float64(density), size), func(b *testing.B) {
				bytes := 0
				for b.Loop() {
					bytes = 0
					for _, data := range pack(b, size, fps, nil) {
						bytes += len(data)
					}
				}
				perFingerprint := float64(bytes) * 8 / float64(len(fps))
				b.ReportMetric(perFingerprint, "bits/fingerprint")
				b.ReportMetric(perFingerprint/entropy, "x-entropy")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}
