package selfjoin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/neardup/neardup/internal/testing/testenv"
	"github.com/neardup/neardup/internal/testing/testgen"
)

var must = testenv.Must

// naive returns the pairs within k bits by comparing all pairs.
func naive(fps []fp, k int) (pairs []Pair) {
	fps = slices.Clone(fps)
	slices.Sort(fps)
	fps = slices.Compact(fps)
	for i, f := range fps {
		for _, g := range fps[i+1:] {
			if f.Distance(g) <= k {
				pairs = append(pairs, pairOf(f, g))
			}
		}
	}
	return pairs
}

func sorted(pairs []Pair) []Pair {
	slices.SortFunc(pairs, func(a, b Pair) int {
		return cmp.Or(cmp.Compare(a.First, b.First), cmp.Compare(a.Second, b.Second))
	})
	return pairs
}

// checkPairs compares the result of Pairs with naive.
func checkPairs(t *testing.T, fps []fp, o Options, what string) {
	t.Helper()
	var got []Pair
	for p, err := range newSet(t, slices.Clone(fps)).Pairs(t.Context(), o) {
		must(t, err)
		got = append(got, p)
	}
	equalPairs(t, sorted(got), naive(fps, o.MaxDistance), fmt.Sprintf("%s, n = %d, %+v", what,
		len(fps), o))
}

func equalPairs(t *testing.T, got, want []Pair, what string) {
	t.Helper()
	if slices.Equal(got, want) {
		return
	}
	i := 0
	for i < min(len(got), len(want)) && got[i] == want[i] {
		i++
	}
	t.Fatalf("%s: %d pairs, want %d; from pair %d on %v, want %v", what, len(got), len(want), i,
		got[i:min(i+1, len(got))], want[i:min(i+1, len(want))])
}

// flipped inverts n bits of a mask in f.
func flipped(r *rand.Rand, f fp, n int, mask fp) fp {
	return fp(testgen.Flip(r, uint64(f), uint64(mask), n))
}

// of returns a generator of the type in shapes.
func of(generate func(r *rand.Rand, n int) []uint64) func(r *rand.Rand, n int) []fp {
	return func(r *rand.Rand, n int) []fp {
		all := generate(r, n)
		return fill(n, func(i int, _ []fp) fp { return fp(all[i]) })
	}
}

// around returns a generator whose fingerprints depend on one random center.
func around(next func(r *rand.Rand, center fp) fp) func(r *rand.Rand, n int) []fp {
	return func(r *rand.Rand, n int) []fp {
		center := fp(r.Uint64())
		return fill(n, func(int, []fp) fp { return next(r, center) })
	}
}

// shapes has easy and difficult collections.
var shapes = []struct {
	name string
	make func(r *rand.Rand, n int) []fp
}{
	{"uniform", of(testgen.Uniform)},
	{"clustered", of(testgen.Clustered)},
	{"adversarial", of(testgen.Adversarial)},
	{"chain", func(r *rand.Rand, n int) []fp {
		return fill(n, func(i int, before []fp) fp {
			return flipped(r, before[max(i-1, 0)], 1+r.IntN(3), ^fp(0))
		})
	}},
	{"ball", around(func(r *rand.Rand, center fp) fp {
		return flipped(r, center, r.IntN(5), ^fp(0))
	})},
	{"few bits", around(func(r *rand.Rand, center fp) fp {
		return center ^ fp(r.Uint64())&0x8014_0204_4208_1001
	})},
	{"one prefix", around(func(r *rand.Rand, center fp) fp {
		if r.IntN(50) == 0 {
			return fp(r.Uint64())
		}
		return center ^ fp(r.Uint64())>>(16+r.IntN(16))
	})},
	{"one block after the other", around(func(r *rand.Rand, center fp) fp {
		return center ^ fp(r.Uint64N(1<<16))<<(16*r.IntN(4))
	})},
}

func fill(n int, f func(i int, before []fp) fp) []fp {
	fps := make([]fp, n)
	for i := range fps {
		fps[i] = f(i, fps)
	}
	return fps
}

func TestPairsMatchBruteForce(t *testing.T) {
	seed := testenv.Seed(t)
	for _, shape := range shapes {
		t.Run(shape.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			for _, n := range []int{0, 1, 2, 30, 300, 1000} {
				for _, k := range []int{0, 1, 2, 3, 4, 6, 10, 16, 31, 64} {
					if testing.Short() && k%3 != 0 && k != 10 {
						continue
					}
					if n == 1000 && (k > 6 || testing.Short()) {
						continue // nearly all pairs
					}
					fps := shape.make(r, n)
					for _, workers := range []int{1, 3} {
						checkPairs(t, fps, Options{MaxDistance: k, Workers: workers}, shape.name)
					}
				}
			}
		})
	}
}

// TestPartsOfTheThreshold tests parts of minLarge and minLarge+1 fingerprints. They must be
// searched either by one worker or by all workers, not both.
func TestPartsOfTheThreshold(t *testing.T) {
	for _, more := range []int{0, 1} {
		r := rand.New(rand.NewPCG(1, 4))
		fps := fill(minLarge+more+10_000, func(i int, before []fp) fp {
			if i%4 == 1 && i < minLarge {
				return before[i-1] ^ 1<<(32+r.IntN(32))
			}
			low := fp(0) // the lower block of a fingerprint has one of two values
			if i < minLarge+more {
				low = 1<<32 - 1
			}
			return fp(r.Uint64()<<32) | low
		})
		checkPairs(t, fps, Options{MaxDistance: 1}, "two parts")
	}
}

// TestStops tests that a search stops with its loop, with an error of its caller, and when its
// context ends, even if it finds no more pairs.
func TestStops(t *testing.T) {
	s := newSet(t, fill(5000, func(i int, _ []fp) fp { return fp(i) }))
	o := Options{MaxDistance: 16, Workers: 1}
	for p, err := range s.Pairs(t.Context(), o) {
		if err != nil || p.First >= p.Second {
			t.Fatal(p, err)
		}
		break
	}
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	calls := 0
	if err := s.Each(ctx, o, func(int, []Pair) error {
		cancel(enough)
		calls++
		time.Sleep(time.Millisecond)
		return nil
	}); !errors.Is(err, enough) || calls > 1000 {
		t.Errorf("Each with a context that is done: %v, after %d calls", err, calls)
	}
	var last error
	for _, err := range s.Pairs(ctx, o) {
		last = err
	}
	if !errors.Is(last, enough) {
		t.Errorf("Pairs with a context that is done: %v", last)
	}
	broken := errors.New("broken")
	if err := s.Each(t.Context(), o,
		func(int, []Pair) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("an error of found: %v", err)
	}
	for _, k := range []int{-1, 65} {
		if err := s.Each(t.Context(), Options{MaxDistance: k}, nil); !errors.Is(err, errDistance) {
			t.Errorf("k = %d: %v", k, err)
		}
	}
	j, _ := joinOf(3, 1)
	j.fail(broken)
	j.fail(enough)
	if err := j.finish(); err != broken {
		t.Errorf("not the first error: %v", err)
	}
}
