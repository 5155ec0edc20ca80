package verify

import (
	"math/bits"
	"math/rand/v2"
	"slices"
)

// tally is a summary of a set of pairs that does not depend on their order. Two sets with
// equal tallies are equal, except for accidental collisions. The hash of a pair selects one
// of 256 parts. For each part, the tally has the number of pairs and two sums of 64-bit
// hashes with random seeds.
type tally struct {
	seeds [2]uint64
	parts [256]struct{ n, first, second uint64 }
}

func newSeeds() [2]uint64 { return [2]uint64{rand.Uint64(), rand.Uint64()} }

func (t *tally) add(a, b uint64) {
	hash := hashPair(t.seeds[0], a, b)
	part := &t.parts[hash>>56]
	part.n++
	part.first += hash
	part.second += hashPair(t.seeds[1], a, b)
}

// hashPair folds products of 128 bits, as wyhash does.
func hashPair(seed, a, b uint64) uint64 {
	high, low := bits.Mul64(a^seed, 0x9e3779b97f4a7c15^seed)
	seed = high ^ low
	high, low = bits.Mul64(b^seed, 0xc2b2ae3d27d4eb4f^bits.RotateLeft64(seed, 32))
	x := high ^ low
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	return x ^ x>>32
}

// pairs yields all pairs of a set, in any order.
type pairs func(add func(a, b uint64))

type pair = [2]uint64

const (
	pairBytes = 16

	// compareMemory bounds the memory for sorting the parts of two sets that differ. If one part
	// needs more, 32 bytes per 256th of the entries of a table, that much is used.
	compareMemory = 256 << 20
)

// compare calls differs with every pair that only one of two sets has. It compares the tallies of
// the sets first, and reads the parts that differ again.
func (v *verifier) compare(left, right *tally, leftPairs, rightPairs pairs, differs func(inLeft bool, a, b uint64)) {
	for _, parts := range differingParts(left, right, compareMemory) {
		l, r := left.collect(leftPairs, parts), right.collect(rightPairs, parts)
		if v.failed != nil {
			return
		}
		merge(l, r, differs)
	}
}

// differingParts returns the parts in which two tallies differ, in groups whose pairs fit in the
// given number of bytes. A larger part is a group of its own.
func differingParts(left, right *tally, memory int64) (together [][]uint8) {
	room := int64(0)
	for part := range left.parts {
		l, r := left.parts[part], right.parts[part]
		if l == r {
			continue
		}
		size := int64(l.n+r.n) * pairBytes
		if len(together) == 0 || size > room {
			together, room = append(together, nil), memory
		}
		last := len(together) - 1
		together[last] = append(together[last], uint8(part))
		room -= size
	}
	return together
}

// collect returns the pairs of some parts of a set, sorted.
func (t *tally) collect(all pairs, parts []uint8) (some []pair) {
	var wanted [256]bool
	for _, part := range parts {
		wanted[part] = true
	}
	all(func(a, b uint64) {
		if wanted[hashPair(t.seeds[0], a, b)>>56] {
			some = append(some, pair{a, b})
		}
	})
	slices.SortFunc(some, comparePairs)
	return some
}

func comparePairs(a, b pair) int { return slices.Compare(a[:], b[:]) }

// merge calls differs with every pair that only one of two sorted lists has.
func merge(left, right []pair, differs func(inLeft bool, a, b uint64)) {
	for len(left) > 0 || len(right) > 0 {
		order := 0
		if len(left) > 0 && len(right) > 0 {
			order = comparePairs(left[0], right[0])
		}
		switch {
		case len(right) == 0 || len(left) > 0 && order < 0:
			differs(true, left[0][0], left[0][1])
			left = left[1:]
		case len(left) == 0 || order > 0:
			differs(false, right[0][0], right[0][1])
			right = right[1:]
		default:
			left, right = left[1:], right[1:]
		}
	}
}
