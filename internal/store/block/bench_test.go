package block

import (
	"encoding/binary"
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

var codecs = []string{"eliasfano", "huffman"}

// packedTable is a table in blocks, and the same blocks as plain values.
type packedTable struct {
	code   *huffmanCode // nil: Elias-Fano
	blocks [][]byte
	plain  [][]uint64
	bytes  int
}

func packTable(b *testing.B, codec string, size int, fps []uint64) (t packedTable) {
	if codec == "huffman" {
		t.code = codeOf(fps)
		t.blocks = t.code.cut(fps, size)
	} else {
		t.blocks = pack(b, size, fps, nil)
	}
	var arena []byte // so that the blocks lie side by side
	for i, data := range t.blocks {
		n := 0
		if t.code != nil {
			n = int(binary.LittleEndian.Uint16(data))
		} else {
			n = openBlock(b, data).Len()
		}
		t.plain, fps = append(t.plain, fps[:n]), fps[n:]
		t.bytes += len(data)
		if cap(arena)-len(arena) < len(data) {
			arena = make([]byte, 0, 1<<20)
		}
		arena = append(arena, data...)
		t.blocks[i] = arena[len(arena)-len(data) : len(arena) : len(arena)]
	}
	return t
}

// blockProbe is a range within one block, and a fingerprint to compare with.
type blockProbe struct {
	block              int
	first, last, query uint64
}

// probesOf returns ranges that hold about the given number of candidates, the
// borders at multiples of a power of two of an eighth to a quarter of the range.
// At least one candidate is in each.
func probesOf(t packedTable, blocks int, candidates float64) []blockProbe {
	random := rand.New(rand.NewPCG(2, 0))
	span := uint64(candidates * math.Exp2(64) / benchDensity)
	unit := bits.Len64(span) - 3
	units := span >> unit
	probes := make([]blockProbe, 1<<16)
	for i := range probes {
		for tries := 0; ; tries++ {
			block := random.IntN(blocks)
			fps := t.plain[block]
			fp := fps[random.IntN(len(fps))]
			first := (fp>>unit - random.Uint64N(units)) << unit
			last := first + units<<unit - 1
			if first >= fps[0] && last <= fps[len(fps)-1] {
				probes[i] = blockProbe{block, first, last, random.Uint64()}
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

// The ways to find what is near the query in a block. Each returns the number of
// fingerprints found, and of those looked at.
var probeWays = []struct {
	name, codec string
	probe       func(t *packedTable, p *blockProbe, buf *[]uint64) (found, seen int)
}{
	{"eliasfano-lows", "eliasfano", func(t *packedTable, p *blockProbe, _ *[]uint64) (found, seen int) {
		var b Block
		if b.Open(t.blocks[p.block]) != nil {
			panic("open")
		}
		lows, from, to, _ := b.LowBits(p.first, p.last)
		query := p.query & lows.Mask()
		for i := from; i < to; i++ {
			if bits.OnesCount64(lows.At(i)^query) <= benchDistance && bits.OnesCount64(b.At(i)^p.query) <= benchDistance {
				found++
			}
		}
		return found, to - from
	}},
	{"eliasfano-append", "eliasfano", func(t *packedTable, p *blockProbe, buf *[]uint64) (found, seen int) {
		var b Block
		if b.Open(t.blocks[p.block]) != nil {
			panic("open")
		}
		*buf, _ = b.AppendRange((*buf)[:0], p.first, p.last)
		return countNear(*buf, p.query)
	}},
	{"huffman-append", "huffman", func(t *packedTable, p *blockProbe, buf *[]uint64) (found, seen int) {
		*buf = t.code.appendRange((*buf)[:0], t.blocks[p.block], p.first, p.last)
		return countNear(*buf, p.query)
	}},
	{"plain", "eliasfano", func(t *packedTable, p *blockProbe, _ *[]uint64) (found, seen int) {
		fps := t.plain[p.block]
		begin, _ := slices.BinarySearch(fps, p.first)
		end, _ := slices.BinarySearch(fps, p.last+1)
		return countNear(fps[begin:end], p.query)
	}},
}

func countNear(fps []uint64, query uint64) (found, seen int) {
	for _, fp := range fps {
		if bits.OnesCount64(fp^query) <= benchDistance {
			found++
		}
	}
	return found, len(fps)
}

// BenchmarkBlockProbe opens a block chosen at random and looks for what is within
// 3 bits of a query in a range of it: in all blocks (cold: more than an L2 cache)
// and in 16 of them (warm). ns/op is of 256 probes; ns/probe is that of the median
// of such runs, which other work on the machine disturbs less.
func BenchmarkBlockProbe(b *testing.B) {
	const run = 256
	for _, size := range []int{512, 1024, 2048, 4096} {
		tables := map[string]packedTable{}
		for _, codec := range codecs {
			tables[codec] = packTable(b, codec, size, benchFingerprints())
		}
		for _, candidates := range []float64{1, 10, 150} {
			for _, cache := range []string{"warm", "cold"} {
				for _, way := range probeWays {
					t := tables[way.codec]
					blocks := len(t.blocks)
					if cache == "warm" {
						blocks = 16
					}
					probes := probesOf(t, blocks, candidates)
					if probes == nil {
						continue
					}
					b.Run(fmt.Sprintf("bytes=%d/candidates=%v/%s/%s", size, candidates, cache, way.name), func(b *testing.B) {
						var buf []uint64
						var times []time.Duration
						total, at := 0, 0
						for b.Loop() {
							begin := time.Now()
							for range run {
								_, seen := way.probe(&t, &probes[at%len(probes)], &buf)
								total += seen
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

// BenchmarkBlockDecode decodes all blocks one after the other; an operation is a block.
func BenchmarkBlockDecode(b *testing.B) {
	for _, codec := range codecs {
		b.Run(codec, func(b *testing.B) {
			t := packTable(b, codec, DefaultBytes, benchFingerprints())
			var fps []uint64
			at, decoded := 0, 0
			for b.Loop() {
				data := t.blocks[at%len(t.blocks)]
				if t.code != nil {
					fps = t.code.appendRange(fps[:0], data, 0, math.MaxUint64)
				} else {
					fps = openBlock(b, data).AppendTo(fps[:0])
				}
				at++
				decoded += len(fps)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(decoded), "ns/fingerprint")
		})
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

// BenchmarkBlockPosting reads the posting of one fingerprint.
func BenchmarkBlockPosting(b *testing.B) {
	block := openBlock(b, pack(b, 0, benchFingerprints()[:1000], benchIDs(1000))[0])
	at := 0
	for b.Loop() {
		if _, err := block.Posting(at % block.Len()); err != nil {
			b.Fatal(err)
		}
		at++
	}
}

// randomValues returns n random values in order.
func randomValues(n int) []uint64 {
	random := rand.New(rand.NewPCG(4, 0))
	values := make([]uint64, n)
	for i := range values {
		values[i] = random.Uint64()
	}
	slices.Sort(values)
	return slices.Compact(values)
}

// clusteredValues returns n values in clusters of 1 to 19, within 3 bits of a
// random value each.
func clusteredValues(n int) []uint64 {
	random := rand.New(rand.NewPCG(5, 0))
	values := make([]uint64, 0, n)
	for len(values) < n {
		centre := random.Uint64()
		for range 1 + random.IntN(19) {
			value := centre
			for range random.IntN(4) {
				value ^= 1 << random.IntN(64)
			}
			values = append(values, value)
		}
	}
	slices.Sort(values)
	return slices.Compact(values)
}

// BenchmarkBlockSize packs tables and reports the bits a fingerprint, also as a
// multiple of the entropy of so many random fingerprints, 64 - log2 n + 1.44
// bits. (Clustered ones have less of it.)
func BenchmarkBlockSize(b *testing.B) {
	for _, table := range []struct {
		name    string
		values  func() []uint64
		density float64
	}{
		{"random-1e6", func() []uint64 { return randomValues(1e6) }, 1e6},
		{"random-1e7", func() []uint64 { return randomValues(1e7) }, 1e7},
		{"random-1e8-density", benchFingerprints, 1e8},
		{"random-1e9-density", func() []uint64 { return sparseValues(benchValues, 1e9, 1) }, 1e9},
		{"clustered-1e7", func() []uint64 { return clusteredValues(1e7) }, 1e7},
	} {
		fps := table.values()
		entropy := 64 - math.Log2(table.density) + 1/math.Ln2
		for _, codec := range codecs {
			for _, size := range []int{512, 1024, 2048, 4096} {
				b.Run(fmt.Sprintf("%s/bytes=%d/%s", table.name, size, codec), func(b *testing.B) {
					var t packedTable
					for b.Loop() {
						t = packTable(b, codec, size, fps)
					}
					perFingerprint := float64(t.bytes) * 8 / float64(len(fps))
					b.ReportMetric(perFingerprint, "bits/fingerprint")
					b.ReportMetric(perFingerprint/entropy, "x-entropy")
					b.ReportMetric(float64(t.bytes)/float64(len(t.blocks)), "bytes/block")
					b.ReportMetric(0, "ns/op")
				})
			}
		}
	}
}
