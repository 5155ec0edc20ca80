package block

import (
	"math/bits"
	"math/rand/v2"
	"testing"
	"unsafe"
)

// TestPassFar compares the results of passFar, by words and by vectors, with a simple loop.
func TestPassFar(t *testing.T) {
	const groups, seed = 5, 1
	rng := rand.New(rand.NewPCG(seed, 0))
	for width := uint(minNearWidth); width <= maxPacked; width++ {
		for range 200 {
			fp, k, packer := rng.Uint64(), rng.IntN(8), bitWriter{dst: make([]byte, 7)}
			near := make([]uint8, groups) // the positions of each group
			for i := range 8 * groups {
				low := rng.Uint64() & (1<<width - 1)
				if rng.IntN(16) == 0 { // differs in about k bits
					low = fp & (1<<width - 1)
					for range k + rng.IntN(2) {
						low ^= 1 << rng.UintN(width)
					}
				}
				packer.write(low, width)
				if bits.OnesCount64((low^fp)&(1<<width-1)) <= k {
					near[i/8] |= 1 << (i % 8)
				}
			}
			var c Comparison
			c.Begin(fp, k)
			c.prepare(width)
			if n := bits.OnesCount64(c.group); n != int(width)+7 {
				t.Fatalf("width %d: a vector has %d bytes, and a group %d", width, n, width+7)
			}
			data := packer.finish()
			for name, passFar := range map[string]func(unsafe.Pointer, int) (int, uint8){
				"words": c.passFarWords, "default": c.passFar,
			} {
				for group := 0; group < groups; group++ {
					passed, found := passFar(unsafe.Pointer(&data[group*int(width)]), groups-group)
					for ; passed > 0; passed-- {
						if near[group] != 0 {
							t.Fatalf("%s, seed %d: width %d, k %d: group %d was passed", name, seed,
								width, k, group)
						}
						group++
					}
					if group < groups && found != near[group] || group == groups && found != 0 {
						t.Fatalf("%s, seed %d: width %d, k %d, group %d: near %08b, want %08b",
							name, seed, width, k, group, found, near)
					}
				}
			}
		}
	}
}

// BenchmarkPassFar compares 152 fingerprints, as a probe of an index of 10 million documents does.
func BenchmarkPassFar(b *testing.B) {
	const groups, width = 19, 40
	data := make([]byte, groups*width+7)
	for i := range data {
		data[i] = byte(rand.Uint32())
	}
	var c Comparison
	c.Begin(rand.Uint64(), 3)
	c.prepare(width)
	for _, way := range []struct {
		name    string
		passFar func(unsafe.Pointer, int) (int, uint8)
	}{{"words", c.passFarWords}, {"default", c.passFar}} {
		b.Run(way.name, func(b *testing.B) {
			for b.Loop() {
				way.passFar(unsafe.Pointer(&data[0]), groups)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(8*groups),
				"ns/fingerprint")
		})
	}
}
