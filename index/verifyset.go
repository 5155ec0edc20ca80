package index

import (
	"math/bits"
	"math/rand/v2"
	"slices"
)

// tally tells whether two sets of pairs are the same, whatever the order in which they
// are gone through, and in which parts they differ: of each 256th of all pairs, by their
// hash, it has their number and two sums of 64-bit hashes, under seeds that no one knows
// beforehand.
type tally [256]struct{ n, first, second uint64 }

func newSeeds() [2]uint64 { return [2]uint64{rand.Uint64(), rand.Uint64()} }

func (t *tally) add(seeds [2]uint64, a, b uint64) {
	hash := hashPair(seeds[0], a, b)
	part := &t[hash>>56]
	part.n++
	part.first += hash
	part.second += hashPair(seeds[1], a, b)
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

type pair = [2]uint64

const pairBytes = 16

// differingParts returns the parts in which two tallies differ, those together whose pairs
// fit in so many bytes, or one by itself.
func differingParts(left, right *tally, memory int64) (together [][]uint8) {
	room := int64(0)
	for part := range left {
		if left[part] == right[part] {
			continue
		}
		size := int64(left[part].n+right[part].n) * pairBytes
		if len(together) == 0 || size > room {
			together, room = append(together, nil), memory
		}
		last := len(together) - 1
		together[last] = append(together[last], uint8(part))
		room -= size
	}
	return together
}

// pairSet gives all pairs of a set, in any order.
type pairSet func(add func(a, b uint64)) error

// differences calls f with every pair that only one of two sets has, of which the tallies
// differ. The sets were read before, so what is wrong with them is known.
func (v *verifier) differences(left, right *tally, leftSet, rightSet pairSet, f func(inLeft bool, a, b uint64)) error {
	v.again = true
	defer func() { v.again = false }()
	for _, parts := range differingParts(left, right, v.memory()) {
		l, err := v.collect(leftSet, parts)
		if err != nil {
			return err
		}
		r, err := v.collect(rightSet, parts)
		if err != nil {
			return err
		}
		merge(l, r, f)
	}
	return nil
}

// collect returns the pairs of some parts of a set, sorted.
func (v *verifier) collect(set pairSet, parts []uint8) (pairs []pair, err error) {
	var wanted [256]bool
	for _, part := range parts {
		wanted[part] = true
	}
	err = set(func(a, b uint64) {
		if wanted[hashPair(v.seeds[0], a, b)>>56] {
			pairs = append(pairs, pair{a, b})
		}
	})
	slices.SortFunc(pairs, comparePairs)
	return pairs, err
}

func comparePairs(a, b pair) int { return slices.Compare(a[:], b[:]) }

// merge calls f with every pair that only one of two sorted lists has.
func merge(left, right []pair, f func(inLeft bool, a, b uint64)) {
	for len(left) > 0 || len(right) > 0 {
		order := 0
		if len(left) > 0 && len(right) > 0 {
			order = comparePairs(left[0], right[0])
		}
		switch {
		case len(right) == 0 || len(left) > 0 && order < 0:
			f(true, left[0][0], left[0][1])
			left = left[1:]
		case len(left) == 0 || order > 0:
			f(false, right[0][0], right[0][1])
			right = right[1:]
		default:
			left, right = left[1:], right[1:]
		}
	}
}
