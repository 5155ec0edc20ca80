// Package blocktest draws fingerprints and postings for tests of blocks and packed tables. A block
// can contain any of them.
package blocktest

import (
	"math"
	"math/rand/v2"
	"slices"

	"pgregory.net/rapid"
)

// Fingerprints draws ascending fingerprints: scattered, clustered, dense runs, and jumps from one
// end to the other.
func Fingerprints(t *rapid.T, most int) []uint64 {
	random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	n := rapid.IntRange(1, most).Draw(t, "n")
	shape := rapid.SampledFrom([]string{"scattered", "clustered", "dense", "gaps",
		"prefix"}).Draw(t, "shape")
	width := rapid.IntRange(0, 63).Draw(t, "width")
	base := rapid.Uint64().Draw(t, "base")
	at, fps := base, []uint64(nil)
	for i := range n {
		switch shape {
		case "scattered":
			at = random.Uint64()
		case "clustered":
			if at = at ^ 1<<random.IntN(64); random.IntN(8) == 0 {
				at = random.Uint64()
			}
		case "dense":
			at = base + uint64(i)
		case "gaps":
			at += random.Uint64() >> random.IntN(64)
		case "prefix":
			at = base>>width<<width | random.Uint64()&(1<<width-1)
		}
		fps = append(fps, at)
	}
	extremes := []uint64{0, 1, 1<<63 - 1, 1 << 63, 1<<63 + 1, math.MaxUint64 - 1, math.MaxUint64}
	fps = append(fps, rapid.SliceOfN(rapid.SampledFrom(extremes), 0, 4).Draw(t, "extremes")...)
	slices.Sort(fps)
	return slices.Compact(fps)
}

// Range draws a range whose ends are equal to, close to, or far from fingerprints.
func Range(t *rapid.T, fps []uint64) (first, last uint64) {
	border := func(name string) uint64 {
		fp := rapid.SampledFrom(fps).Draw(t, name)
		return rapid.OneOf(rapid.SampledFrom([]uint64{fp, fp, fp - 1, fp + 1, 0, math.MaxUint64}),
			rapid.Uint64()).Draw(t, name+" border")
	}
	first, last = border("first"), border("last")
	if rapid.Bool().Draw(t, "as prefix") {
		width := rapid.IntRange(0, 63).Draw(t, "prefix")
		first = first >> width << width
		last = first | (1<<width - 1)
	}
	return first, last // first can be larger than last
}

// InRange returns the fingerprints of a range, and the position of the first one.
func InRange(fps []uint64, first, last uint64) (found []uint64, at int) {
	at, _ = slices.BinarySearch(fps, first)
	end := at
	for end < len(fps) && fps[end] <= last {
		end++
	}
	return fps[at:end], at
}

// Postings draws n sets of one or several IDs, some of them large.
func Postings[IDs any](t *rapid.T, random *rand.Rand, n int, newIDs func(...uint64) IDs) []IDs {
	several := rapid.SampledFrom([]int{0, 1, 10, 100}).Draw(t, "% several")
	most := rapid.SampledFrom([]uint64{1, 300, 1e8, 1<<56 - 1}).Draw(t, "largest ID")
	postings := make([]IDs, n)
	for i := range postings {
		ids := make([]uint64, 1)
		if random.IntN(100) < several {
			ids = make([]uint64, 2+random.IntN(60))
		}
		for j := range ids {
			ids[j] = 1 + random.Uint64N(most)
		}
		postings[i] = newIDs(ids...)
	}
	return postings
}
