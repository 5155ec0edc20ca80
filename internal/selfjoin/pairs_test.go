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

// naive compares all pairs.
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
		if a.First != b.First {
			return cmp.Compare(a.First, b.First)
		}
		return cmp.Compare(a.Second, b.Second)
	})
	return pairs
}

func allPairs(t *testing.T, s *Set, o Options) []Pair {
	t.Helper()
	var pairs []Pair
	for p, err := range s.Pairs(context.Background(), o) {
		must(t, err)
		pairs = append(pairs, p)
	}
	return sorted(pairs)
}

// flipped inverts n bits of a mask in f.
func flipped(r *rand.Rand, f fp, n int, mask fp) fp {
	return fp(testgen.Flip(r, uint64(f), uint64(mask), n))
}

// shapes has easy and difficult collections.
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
					want := naive(fps, k)
					for _, workers := range []int{1, 3} {
						got := allPairs(t, newSet(t, slices.Clone(fps)),
							Options{MaxDistance: k, Workers: workers})
						if !slices.Equal(got, want) {
							t.Fatalf("seed %d, n = %d, k = %d, %d workers: %s", seed, n, k, workers,
								difference(got, want))
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
			return fmt.Sprintf("%d pairs, want %d; pair %d is %v, want %v", len(got), len(want), i,
				got[i], want[i])
		}
	}
	return fmt.Sprintf("%d pairs, want %d", len(got), len(want))
}

// TestLargePairsMatchBruteForce tests collections that all workers divide together, and
// parts that they divide again.
func TestLargePairsMatchBruteForce(t *testing.T) {
	seed := testenv.Seed(t)
	for _, shape := range shapes {
		n := testenv.Number(6000, 17_000, 17_000, 17_000) // a bit more than minLarge
		switch shape.name {
		case "few bits", "numbers", "ball", "equal":
			continue // millions of pairs, or none
		case "random", "clustered":
			n = testenv.Number(n, n, 50_000, 100_000)
		default:
			if testing.Short() {
				continue
			}
		}
		t.Run(shape.name, func(t *testing.T) {
			fps := shape.make(rand.New(rand.NewPCG(seed, 4)), n)
			want := naive(fps, 6)
			for _, k := range []int{6, 3} {
				want = slices.DeleteFunc(want, func(p Pair) bool { return p.Distance > k })
				got := allPairs(t, newSet(t, slices.Clone(fps)), Options{MaxDistance: k})
				if !slices.Equal(got, want) {
					t.Errorf("seed %d, n = %d, k = %d: %s", seed, n, k, difference(got, want))
				}
			}
		})
	}
}

// TestPartsOfTheThreshold tests that a part is searched either by one worker or by all of them
// together, not both.
func TestPartsOfTheThreshold(t *testing.T) {
	for _, more := range []int{0, 1} {
		r := rand.New(rand.NewPCG(1, 4))
		fps := fill(minLarge+more+10_000, func(i int, before []fp) fp {
			if i%4 == 1 && i < minLarge {
				return before[i-1] ^ 1<<(32+r.IntN(32))
			}
			low := fp(0) // all fingerprints have one of two values in the lower block
			if i < minLarge+more {
				low = 1<<32 - 1
			}
			return fp(r.Uint64()<<32) | low
		})
		got := allPairs(t, newSet(t, slices.Clone(fps)), Options{MaxDistance: 1})
		if want := naive(fps, 1); !slices.Equal(got, want) {
			t.Errorf("%d of one part: %s", minLarge+more, difference(got, want))
		}
	}
}

// TestEachStopsWithTheContext tests that Each stops when its context ends, even if it finds no
// pair.
func TestEachStopsWithTheContext(t *testing.T) {
	s := newSet(t, fill(5000, func(i int, _ []fp) fp { return fp(i) }))
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	calls := 0
	err := s.Each(ctx, Options{MaxDistance: 16, Workers: 1}, func(int, []Pair) error {
		cancel(enough)
		calls++
		time.Sleep(time.Millisecond)
		return nil
	})
	if !errors.Is(err, enough) || calls > 1000 {
		t.Errorf("a context that is done: %v, after %d calls", err, calls)
	}
}

func TestPairsStopWithTheLoopAndTheContext(t *testing.T) {
	s := newSet(t, fill(5000, func(i int, _ []fp) fp { return fp(i) }))
	for p, err := range s.Pairs(context.Background(), Options{MaxDistance: 16}) {
		if err != nil || p.First >= p.Second {
			t.Fatal(p, err)
		}
		break
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var last error
	for _, err := range s.Pairs(ctx, Options{MaxDistance: 16}) {
		cancel()
		last = err
	}
	if !errors.Is(last, context.Canceled) {
		t.Errorf("a context that is done: %v", last)
	}
	broken := errors.New("broken")
	if err := s.Each(context.Background(), Options{MaxDistance: 3},
		func(int, []Pair) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("an error of found: %v", err)
	}
	for _, k := range []int{-1, 65} {
		if err := s.Each(context.Background(), Options{MaxDistance: k},
			nil); !errors.Is(err, errDistance) {
			t.Errorf("k = %d: %v", k, err)
		}
	}
}
