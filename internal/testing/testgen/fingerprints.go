package testgen

import (
	"math/bits"
	"math/rand/v2"
)

// Set is a named set of fingerprints.
type Set struct {
	Name         string
	Fingerprints []uint64
}

// Sets returns random, clustered and adversarial fingerprints.
func Sets(rng *rand.Rand, n int) []Set {
	return []Set{
		{"uniform", Uniform(rng, n)},
		{"clustered", Clustered(rng, n)},
		{"adversarial", Adversarial(rng, n)},
	}
}

// Flip inverts n different bits of fp that are set in mask, or all of them if mask has fewer.
func Flip(rng *rand.Rand, fp, mask uint64, n int) uint64 {
	for n = min(n, bits.OnesCount64(mask)); n > 0; {
		if bit := uint64(1) << rng.IntN(64); mask&bit != 0 {
			fp, mask, n = fp^bit, mask&^bit, n-1
		}
	}
	return fp
}

// Uniform returns random fingerprints.
func Uniform(rng *rand.Rand, n int) []uint64 {
	fps := make([]uint64, n)
	for i := range fps {
		fps[i] = rng.Uint64()
	}
	return fps
}

// Clustered returns fingerprints of which 40 % are near another one, 0 to 12 bits away. A tenth
// repeats one of three fingerprints, for postings that are bitmaps.
func Clustered(rng *rand.Rand, n int) []uint64 {
	fps := Uniform(rng, n)
	for i := 3; i < n; i++ {
		switch r := rng.IntN(10); {
		case r == 0:
			fps[i] = fps[rng.IntN(3)]
		case r < 5:
			fps[i] = Flip(rng, fps[rng.IntN(i)], ^uint64(0), rng.IntN(13))
		}
	}
	return fps
}

// Adversarial returns fingerprints that are difficult for a search by prefixes and blocks: zeros,
// ones, single bits, and consecutive numbers, whose blocks are smallest. Many fingerprints differ
// in a few bits, or only in low or high bits. In some tables, the range of a prefix then extends
// over several packed blocks.
func Adversarial(rng *rand.Rand, n int) []uint64 {
	fps := []uint64{0, ^uint64(0), 1, 1 << 63, ^uint64(1), ^uint64(0) >> 1}
	for shift := range 64 {
		fps = append(fps, 1<<shift, ^uint64(0)<<shift)
	}
	run, other := rng.Uint64()&^0xffff, rng.Uint64()
	for i := uint64(0); len(fps) < n; i++ {
		switch i % 8 {
		case 0, 1:
			fps = append(fps, run+i)
		case 2:
			fps = append(fps, bits.Reverse64(run+i)) // a run in the last block of bits
		case 3, 4:
			fps = append(fps, other&^(1<<40-1)|rng.Uint64N(1<<40))
		case 5:
			fps = append(fps, other&(1<<40-1)|rng.Uint64()<<40)
		case 6:
			center := []uint64{0, ^uint64(0), run, 0xaaaaaaaaaaaaaaaa}[rng.IntN(4)]
			fps = append(fps, Flip(rng, center, ^uint64(0), rng.IntN(13)))
		default:
			fps = append(fps, fps[rng.IntN(len(fps))])
		}
	}
	return fps[:n]
}

// Queries returns stored fingerprints, fingerprints up to k+2 bits from stored ones, and
// unrelated ones.
func Queries(rng *rand.Rand, fps []uint64, n, k int) []uint64 {
	queries := make([]uint64, n)
	for i := range queries {
		near := fps[rng.IntN(len(fps))]
		switch rng.IntN(8) {
		case 0:
			queries[i] = rng.Uint64()
		case 1:
			queries[i] = near
		case 2: // change the lowest bits, which may cross the end of a range
			queries[i] = Flip(rng, near, 0xf, rng.IntN(k+3))
		default:
			queries[i] = Flip(rng, near, ^uint64(0), rng.IntN(k+3))
		}
	}
	return queries
}
