package selfjoin

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// naive compares all with all.
func naive(fps []fp, k int) []Pair {
	fps = slices.Clone(fps)
	slices.Sort(fps)
	fps = slices.Compact(fps)
	var pairs []Pair
	for i, f := range fps {
		for _, g := range fps[:i] {
			if f.Distance(g) <= k {
				pairs = append(pairs, pairOf(f, g))
			}
		}
	}
	return sorted(pairs)
}

func sorted(pairs []Pair) []Pair {
	slices.SortFunc(pairs, func(a, b Pair) int {
		return cmp.Or(cmp.Compare(a.First, b.First), cmp.Compare(a.Second, b.Second))
	})
	return pairs
}

func allPairs(t *testing.T, s *Set, o Options) []Pair {
	t.Helper()
	var pairs []Pair
	for p, err := range s.Pairs(context.Background(), o) {
		if err != nil {
			t.Fatal(err)
		}
		pairs = append(pairs, p)
	}
	return sorted(pairs)
}

// flipped changes n bits of a mask.
func flipped(r *rand.Rand, f fp, n int, mask fp) fp {
	g := f
	for d := 0; d < n; {
		if bit := fp(1) << r.IntN(64); mask&bit != 0 && (f^g)&bit == 0 {
			g ^= bit
			d++
		}
	}
	return g
}

// shapes are collections that are easy, and such that are not.
var shapes = []struct {
	name string
	make func(r *rand.Rand, n int) []fp
}{
	{"random", func(r *rand.Rand, n int) []fp {
		return fill(n, func(int, []fp) fp { return fp(r.Uint64()) })
	}},
	{"clustered", func(r *rand.Rand, n int) []fp {
		return fill(n, func(i int, before []fp) fp {
			if i == 0 || r.IntN(3) == 0 {
				return fp(r.Uint64())
			}
			return flipped(r, before[r.IntN(i)], r.IntN(5), ^fp(0))
		})
	}},
	{"chain", func(r *rand.Rand, n int) []fp {
		return fill(n, func(i int, before []fp) fp {
			if i == 0 {
				return fp(r.Uint64())
			}
			return flipped(r, before[i-1], 1+r.IntN(3), ^fp(0))
		})
	}},
	{"ball", func(r *rand.Rand, n int) []fp {
		center := fp(r.Uint64())
		return fill(n, func(int, []fp) fp { return flipped(r, center, r.IntN(5), ^fp(0)) })
	}},
	{"equal", func(r *rand.Rand, n int) []fp {
		f := fp(r.Uint64())
		return fill(n, func(int, []fp) fp { return f })
	}},
	{"numbers", func(r *rand.Rand, n int) []fp {
		return fill(n, func(i int, _ []fp) fp { return fp(i) })
	}},
	{"few bits", func(r *rand.Rand, n int) []fp {
		mask := fp(0x8010_0204_4008_1001 | 1<<r.IntN(64) | 1<<r.IntN(64) | 1<<r.IntN(64))
		base := fp(r.Uint64())
		return fill(n, func(int, []fp) fp { return base ^ fp(r.Uint64())&mask })
	}},
	{"one prefix", func(r *rand.Rand, n int) []fp {
		base := fp(r.Uint64())
		return fill(n, func(i int, _ []fp) fp {
			if i%50 == 0 {
				return fp(r.Uint64())
			}
			return base ^ fp(r.Uint64())>>(16+r.IntN(16))
		})
	}},
	{"one block after the other", func(r *rand.Rand, n int) []fp {
		base := fp(r.Uint64())
		return fill(n, func(i int, _ []fp) fp {
			return base ^ fp(r.Uint64N(1<<16))<<(16*r.IntN(4))
		})
	}},
}

func fill(n int, f func(i int, before []fp) fp) []fp {
	fps := make([]fp, n)
	for i := range fps {
		fps[i] = f(i, fps)
	}
	return fps
}

func TestPairsAreThoseOfComparingAll(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for _, shape := range shapes {
		t.Run(shape.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			for _, n := range []int{0, 1, 2, 30, 300, 3000} {
				for _, k := range []int{0, 1, 2, 3, 4, 6, 10, 16, 31, 64} {
					if n == 3000 && k > 10 {
						continue // nearly all pairs
					}
					fps := shape.make(r, n)
					want := naive(fps, k)
					for _, workers := range []int{1, 3} {
						got := allPairs(t, NewSet(slices.Clone(fps)), Options{MaxDistance: k, Workers: workers})
						if !slices.Equal(got, want) {
							t.Fatalf("seed %d, n = %d, k = %d, %d workers: %s", seed, n, k, workers, difference(got, want))
						}
					}
				}
			}
		})
	}
}

func difference(got, want []Pair) string {
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			return fmt.Sprintf("%d pairs, want %d; pair %d is %v, want %v", len(got), len(want), i, got[i], want[i])
		}
	}
	return fmt.Sprintf("%d pairs, want %d", len(got), len(want))
}
