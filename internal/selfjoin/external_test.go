package selfjoin

import (
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/neardup/neardup/internal/testenv"
)

// inParts yields fingerprints some at a time.
func inParts(fps []fp) iter.Seq2[[]fp, error] {
	return func(yield func([]fp, error) bool) {
		for part := range slices.Chunk(fps, 1000) {
			if !yield(part, nil) {
				return
			}
		}
	}
}

func scratchIn(t *testing.T) *scratch {
	t.Helper()
	s, err := newScratch(t.TempDir())
	must(t, err)
	t.Cleanup(func() {
		if err := s.close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// externalPairs has room for so many fingerprints at once.
func externalPairs(t *testing.T, fps []fp, k, room int) []Pair {
	t.Helper()
	var pairs []Pair
	var mu sync.Mutex
	e := &external{files: scratchIn(t), memory: int64(room) * 64 / 3, join: newJoin(k, 2, func(_ int, found []Pair) error {
		mu.Lock()
		defer mu.Unlock()
		pairs = append(pairs, found...)
		return nil
	})}
	must(t, e.pairs(t.Context(), inParts(fps), func(fp) {}))
	left, err := os.ReadDir(e.files.dir)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	return sorted(pairs)
}

func TestExternalPairsAreThoseOfComparingAll(t *testing.T) {
	seed := testenv.Seed(t)
	for _, shape := range shapes {
		n := 2000
		if shape.name == "few bits" || shape.name == "ball" || shape.name == "numbers" {
			n = 1000
		}
		fps := shape.make(rand.New(rand.NewPCG(seed, 5)), n)
		for _, k := range []int{1, 3, 6} {
			want := naive(fps, k)
			// So little room that groups are spooled, and divided again.
			for _, room := range []int{800, 10_000} {
				if k == 6 && room < n || testing.Short() && room < n && shape.name != "clustered" {
					continue // many small files
				}
				if got := externalPairs(t, fps, k, room); !slices.Equal(got, want) {
					t.Errorf("seed %d, %s, k = %d, room for %d: %s", seed, shape.name, k, room, difference(got, want))
				}
			}
		}
	}
}

func TestExternal(t *testing.T) {
	fps := fill(10_000, func(i int, _ []fp) fp { return fp(i/5) << 20 })
	pairs := 0
	var mu sync.Mutex
	count := func(_ int, found []Pair) error {
		mu.Lock()
		defer mu.Unlock()
		pairs += len(found)
		return nil
	}
	want := naive(fps, 2)
	if err := ExternalPairs(context.Background(), inParts(fps), Options{MaxDistance: 2, Dir: t.TempDir()}, count); err != nil || pairs != len(want) {
		t.Errorf("%d pairs, want %d: %v", pairs, len(want), err)
	}
	broken := errors.New("broken")
	failing := func(yield func([]fp, error) bool) { yield(nil, broken) }
	if err := ExternalPairs(context.Background(), failing, Options{MaxDistance: 2}, count); !errors.Is(err, broken) {
		t.Errorf("an error of the source: %v", err)
	}
	if err := ExternalPairs(context.Background(), inParts(fps), Options{MaxDistance: 65}, count); !errors.Is(err, errDistance) {
		t.Errorf("k = 65: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := ExternalPairs(ctx, inParts(fps), Options{MaxDistance: 2}, count); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that is done: %v", err)
	}
	if testing.Short() {
		return
	}
	// Nothing can be done but to compare all of them, and they do not fit.
	r := rand.New(rand.NewPCG(1, 1))
	if err := ExternalPairs(context.Background(), inParts(fill(900_000, func(int, []fp) fp { return fp(r.Uint64()) })),
		Options{MaxDistance: 40, MemoryBytes: 1}, count); !errors.Is(err, errMemory) {
		t.Errorf("k = 40 in 16 MiB: %v", err)
	}
}

// TestSplitsOfMoreThanAnIntHolds: what is in files may be more than 2^32, also where an
// int has 32 bits.
func TestSplitsOfMoreThanAnIntHolds(t *testing.T) {
	c := constraint{free: ^fp(0), budget: 3}
	for _, n := range []int64{1 << 30, 1 << 31, 1 << 32, 1 << 40} {
		if s := c.smaller(n, 3, ^fp(0)); s.none() || s.width < 9 {
			t.Errorf("%d fingerprints are divided by %v bits", n, s.width)
		}
	}
	for _, n := range []int{10, 1<<31 - 1} {
		for i := range 20 {
			if begin, end := share(n, i, 20); begin != int(int64(n)*int64(i)/20) || end != int(int64(n)*int64(i+1)/20) {
				t.Errorf("part %d of %d is %d to %d", i, n, begin, end)
			}
		}
	}
}

// TestExternalSaysWhatALargeGroupLacks: the rest of the collection fits, but a group of
// it would have to be compared with itself, and does not.
func TestExternalSaysWhatALargeGroupLacks(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 3))
	fps := fill(300, func(i int, _ []fp) fp {
		if i < 1<<7 {
			return fp(i) << 57
		}
		return fp(r.Uint64())
	})
	e := &external{files: scratchIn(t), memory: 100 * 64 / 3, join: newJoin(7, 2, func(int, []Pair) error { return nil })}
	if err := e.pairs(t.Context(), inParts(fps), func(fp) {}); !errors.Is(err, errMemory) {
		t.Errorf("128 fingerprints that differ in 7 bits, k = 7, room for 100: %v", err)
	}
}
