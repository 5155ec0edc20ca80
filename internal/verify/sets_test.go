package verify

import (
	"slices"
	"testing"
)

// TestDifferingParts tests that differing parts are read again, in as few parts as the memory
// allows. Pairs of both sides must be found with any memory limit.
func TestDifferingParts(t *testing.T) {
	v := verifier{}
	left, right := tally{seeds: newSeeds()}, tally{}
	right.seeds = left.seeds
	for n := range uint64(10_000) {
		if n != 77 {
			left.add(n, n%7)
		}
		if n%5000 != 3 {
			right.add(n, n%7)
		}
	}
	without := func(without func(n uint64) bool) pairs {
		return func(add func(a, b uint64)) {
			for n := range uint64(10_000) {
				if !without(n) {
					add(n, n%7)
				}
			}
		}
	}
	if got := differingParts(&left, &left, 1); len(got) != 0 {
		t.Errorf("equal sets: %d parts", len(got))
	}
	for _, memory := range []int64{1, 2000, 1 << 30} {
		parts := differingParts(&left, &right, memory)
		if n := len(slices.Concat(parts...)); n < 1 || n > 3 || memory == 1 && len(parts) != n || memory > 1<<20 && len(parts) != 1 {
			t.Errorf("memory %d: %v", memory, parts)
		}
		var got []pair
		v.compare(&left, &right, without(func(n uint64) bool { return n == 77 }), without(func(n uint64) bool { return n%5000 == 3 }),
			func(inLeft bool, a, b uint64) {
				if inLeft != (a != 77) || b != a%7 {
					t.Errorf("memory %d: %v %d %d", memory, inLeft, a, b)
				}
				got = append(got, pair{a, b})
			})
		slices.SortFunc(got, comparePairs)
		if want := []pair{{3, 3}, {77, 0}, {5003, 5003 % 7}}; !slices.Equal(got, want) {
			t.Errorf("memory %d: %v, not %v", memory, got, want)
		}
	}
}
