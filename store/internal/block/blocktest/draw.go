// Package blocktest draws fingerprints and postings for tests of blocks and of packed tables. They
// fit in a block.
package blocktest

import (
	"math"
	"math/rand/v2"
	"slices"

	"pgregory.net/rapid"
)

// Fingerprints gives ascending fingerprints: scattered, clustered, dense runs,
// and jumps from one end to the other.
func Fingerprints(t *rapid.T, most int) []uint64 {
	random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	n := rapid.IntRange(1, most).Draw(t, "n")
	fps := make([]uint64, 0, n+8)
	shape := rapid.SampledFrom([]string{"scattered", "clustered", "dense", "gaps",
		"prefix"}).Draw(t, "shape")
	width := rapid.IntRange(0, 63).Draw(t, "width")
	base := rapid.Uint64().Draw(t, "base")
	at := base
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

// Range draws borders at, near and far from fingerprints.
func Range(t *rapid.T, fps []uint64) (first, last uint64) {
	border := func(name string) uint64 {
		fp := fps[rapid.IntRange(0, len(fps)-1).Draw(t, name)]
		switch rapid.IntRange(0, 5).Draw(t, name+" place") {
		case 0:
			return fp - 1
		case 1:
			return fp + 1
		case 2:
			return rapid.Uint64().Draw(t, name+" anywhere")
		case 3:
			return rapid.SampledFrom([]uint64{0, math.MaxUint64}).Draw(t, name+" extreme")
		}
		return fp
	}
	first, last = border("first"), border("last")
	if rapid.Bool().Draw(t, "as prefix") {
		width := rapid.IntRange(0, 63).Draw(t, "prefix")
		first = first >> width << width
		last = first | (1<<width - 1)
	}
	return first, last // now and then the wrong way round
}

// InRange returns the fingerprints of a range, and the place of the first.
func InRange(fps []uint64, first, last uint64) (found []uint64, at int) {
	for i, fp := range fps {
		if fp >= first && fp <= last {
			if found == nil {
				at = i
			}
			found = append(found, fp)
		}
	}
	return found, at
}

// Postings gives n postings, as they are (one ID) and others: few, many, large IDs.
func Postings[IDs any](t *rapid.T, random *rand.Rand, n int, newIDs func(...uint64) IDs) []IDs {
	several := rapid.SampledFrom([]int{0, 1, 10, 100}).Draw(t, "% several")
	most := rapid.SampledFrom([]uint64{1, 300, 1e8, 1<<56 - 1}).Draw(t, "largest ID")
	postings := make([]IDs, n)
	for i := range postings {
		count := 1
		if random.IntN(100) < several {
			count = 2 + random.IntN(60)
		}
		ids := make([]uint64, count)
		for j := range ids {
			ids[j] = 1 + random.Uint64N(most)
		}
		postings[i] = newIDs(ids...)
	}
	return postings
}
