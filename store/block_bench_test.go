package store

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
)

// The benchmarks read a slice of a large table: consecutive values at the density
// of 100 million random 64-bit ones, in enough blocks that they do not fit into an
// L2 cache (48 MiB as plain values, some 29 MiB packed). Each probe goes to a
// block chosen at random.
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
	mean := float64(1<<63) / float64(total) * 2
	values := make([]uint64, n)
	at := uint64(0x9e37) << 40
	for i := range values {
		at += 1 + uint64(random.ExpFloat64()*mean)
		values[i] = at
	}
	return values
}

type packedTable struct {
	keys   []uint64
	blocks [][]byte
	code   *HuffmanCode
	bytes  int
}

func packTable(tb testing.TB, codec BlockCodec, size int, fps []uint64) packedTable {
	var t packedTable
	opts := BlockOptions{Codec: codec, Bytes: size}
	if codec == BlockHuffman {
		opts.Code = codeOf(fps)
		t.code = opts.Code
	}
	var all []byte
	w, err := NewBlockWriter(opts, func(last uint64, block []byte) error {
		t.keys = append(t.keys, last)
		t.bytes += len(block)
		if cap(all)-len(all) < len(block) {
			all = make([]byte, 0, 1<<20)
		}
		all = append(all, block...)
		t.blocks = append(t.blocks, all[len(all)-len(block):len(all):len(all)])
		return nil
	})
	if err != nil {
		tb.Fatal(err)
	}
	for _, fp := range fps {
		if err := w.Add(fp); err != nil {
			tb.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		tb.Fatal(err)
	}
	return t
}

func codeOf(fps []uint64) *HuffmanCode {
	var h BitHistogram
	for i := 1; i < len(fps); i++ {
		h.Add(fps[i-1], fps[i])
	}
	return NewHuffmanCode(&h)
}

type benchProbe struct {
	block              int
	first, last, query uint64
}

// benchProbes returns ranges within one block that begin and end at multiples of
// a power of two, as prefixes do, and hold about the given number of candidates.
func benchProbes(keys []uint64, fps []uint64, candidates float64) []benchProbe {
	random := rand.New(rand.NewPCG(2, 0))
	width := bits.Len64(uint64(candidates*float64(1<<63)/benchDensity*2)) - 1
	var probes []benchProbe
	for len(probes) < 1<<16 {
		fp := fps[random.IntN(len(fps))]
		block, _ := slices.BinarySearch(keys, fp)
		first := fp >> width << width
		last := first | (1<<width - 1)
		if first == 0 || last > keys[block] || block > 0 && first <= keys[block-1] {
			continue
		}
		probes = append(probes, benchProbe{block, first, last, fp ^ random.Uint64()})
	}
	return probes
}

var sizes = []int{512, 1024, 2048, 4096}

func BenchmarkBlockProbe(b *testing.B) {
	fps := benchFingerprints()
	for _, size := range sizes {
		for _, candidates := range []float64{1.5, 12, 100, 150} {
			elias := packTable(b, BlockEliasFano, size, fps)
			if float64(len(fps)/len(elias.keys)) < candidates*1.2 {
				continue
			}
			probes := benchProbes(elias.keys, fps, candidates)
			run := func(name string, probe func(p *benchProbe) (found, seen int)) {
				b.Run(fmt.Sprintf("%d/%v/%s", size, candidates, name), func(b *testing.B) {
					found, seen, i := 0, 0, 0
					for b.Loop() {
						f, s := probe(&probes[i%len(probes)])
						found += f
						seen += s
						i++
					}
					b.ReportMetric(float64(seen)/float64(i), "candidates/op")
					_ = found
				})
			}
			var buf []uint64
			run("append", func(p *benchProbe) (found, seen int) {
				var block Block
				_ = block.Open(elias.blocks[p.block], nil)
				buf, _ = block.AppendRange(buf[:0], p.first, p.last)
				for _, fp := range buf {
					if bits.OnesCount64(fp^p.query) <= 3 {
						found++
					}
				}
				return found, len(buf)
			})
			run("lows", func(p *benchProbe) (found, seen int) {
				var block Block
				_ = block.Open(elias.blocks[p.block], nil)
				lows, from, to, ok := block.Lows(p.first, p.last)
				if !ok {
					panic("")
				}
				q := p.query & lows.Mask()
				for i := from; i < to; i++ {
					if bits.OnesCount64(lows.At(i)^q) <= 3 && bits.OnesCount64(block.At(i)^p.query) <= 3 {
						found++
					}
				}
				return found, to - from
			})
		}
	}
}
