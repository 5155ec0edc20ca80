package testgen

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/neardup/neardup/internal/radix"
)

// Key is a named distribution of the first words of records.
type Key struct {
	Name string
	Next func(r *rand.Rand, i int) uint64
}

// Keys has even distributions, and distributions that are difficult for a radix sort.
var Keys = []Key{
	{"random", func(r *rand.Rand, _ int) uint64 { return r.Uint64() }},
	{"equal", func(*rand.Rand, int) uint64 { return 0x0123456789abcdef }},
	{"ascending", func(_ *rand.Rand, i int) uint64 { return uint64(i) }},
	{"descending", func(_ *rand.Rand, i int) uint64 { return math.MaxUint64 - uint64(i) }},
	{"few values", func(r *rand.Rand, _ int) uint64 { return r.Uint64N(5) * 0x3333333333333333 }},
	{"extremes", func(r *rand.Rand, _ int) uint64 { return -r.Uint64N(2) }},
	{"shared top 40 bits", func(r *rand.Rand, _ int) uint64 {
		return 0xabcdef1234<<24 | r.Uint64N(1<<24)
	}},
	{"few bits set", func(r *rand.Rand, _ int) uint64 {
		x := uint64(1) << r.Uint64N(64)
		return x | 1<<r.Uint64N(64)
	}},
	{"clusters of near-duplicates", func(r *rand.Rand, _ int) uint64 {
		x := (1 + r.Uint64N(20)) * 0x9e3779b97f4a7c15
		for range r.IntN(4) {
			x ^= 1 << r.Uint64N(64)
		}
		return x
	}},
	{"one outlier", func(_ *rand.Rand, i int) uint64 {
		if i == 1000 {
			return 1
		}
		return 1 << 63
	}},
	// At each level of a radix sort, all but a few records share a bucket.
	{"nested", func(r *rand.Rand, _ int) uint64 {
		if r.IntN(20) > 0 {
			return r.Uint64N(3)
		}
		return r.Uint64() >> (8 * r.Uint64N(8))
	}},
	{"half equal", func(r *rand.Rand, _ int) uint64 {
		if r.IntN(2) == 0 {
			return 1 << 62
		}
		return r.Uint64()
	}},
}

// Records returns n records with keys from next. The second word, if any, is the position.
func Records[R radix.Record](n int, seed uint64, next func(*rand.Rand, int) uint64) []R {
	random := rand.New(rand.NewPCG(seed, 0))
	records := make([]R, n)
	for i := range records {
		words := [4]uint64{next(random, i), uint64(i), ^uint64(i), seed}
		for word := range len(records[i]) {
			records[i][word] = words[word]
		}
	}
	return records
}

// StableSorted returns a copy of the records, sorted stably by their first word.
func StableSorted[R radix.Record](records []R) []R {
	sorted := slices.Clone(records)
	slices.SortStableFunc(sorted, func(a, b R) int { return cmp.Compare(a[0], b[0]) })
	return sorted
}
