package index

import (
	"context"
	"errors"
	"iter"
	"math/bits"
	"math/rand/v2"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/neardup/neardup/internal/extsort"
)

// tally tells whether two sets of pairs are the same, whatever the order in which they
// are gone through: by their number, and by two sums of 64-bit hashes under seeds that
// no one knows beforehand.
type tally struct{ n, first, second uint64 }

func newSeeds() [2]uint64 { return [2]uint64{rand.Uint64(), rand.Uint64()} }

func (t *tally) add(seeds [2]uint64, a, b uint64) {
	t.n++
	t.first += hashPair(seeds[0], a, b)
	t.second += hashPair(seeds[1], a, b)
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

// sortOptions say how much memory sorting may take, and where the rest goes.
type sortOptions struct {
	memory int64
	dir    string
	fs     vfs.FS
}

// differences yields every pair that only one of two sets has. Each of them is given by
// a function that adds its pairs, in any order.
func differences(ctx context.Context, o sortOptions, left, right func(add func(a, b uint64) error) error, yield func(inLeft bool, a, b uint64)) (err error) {
	sorted := func(fill func(add func(a, b uint64) error) error) (iter.Seq2[pair, error], func() error, error) {
		s := extsort.New[pair](extsort.Options{MemoryBytes: o.memory / 2, Dir: o.dir, FS: o.fs})
		var batch []pair
		err := fill(func(a, b uint64) error {
			if batch = append(batch, pair{a, b}); len(batch) < 4096 {
				return nil
			}
			err := s.Add(ctx, batch)
			batch = batch[:0]
			return err
		})
		if err == nil {
			err = s.Add(ctx, batch)
		}
		return pairsOf(s.Sorted(ctx)), s.Close, err
	}
	l, closeLeft, err := sorted(left)
	if err == nil {
		defer func() { err = errors.Join(err, closeLeft()) }()
		var r iter.Seq2[pair, error]
		var closeRight func() error
		if r, closeRight, err = sorted(right); err == nil {
			defer func() { err = errors.Join(err, closeRight()) }()
			return merge(l, r, yield)
		}
		return errors.Join(err, closeRight())
	}
	return errors.Join(err, closeLeft())
}

// pairsOf yields the pairs of sorted runs in the order of both words. extsort orders by
// the first.
func pairsOf(runs iter.Seq2[[]pair, error]) iter.Seq2[pair, error] {
	return func(yield func(pair, error) bool) {
		var same []pair // of one first word
		flush := func() bool {
			slices.SortFunc(same, comparePairs)
			for _, p := range same {
				if !yield(p, nil) {
					return false
				}
			}
			same = same[:0]
			return true
		}
		for run, err := range runs {
			if err != nil {
				yield(pair{}, err)
				return
			}
			for _, p := range run {
				if len(same) > 0 && same[0][0] != p[0] && !flush() {
					return
				}
				same = append(same, p)
			}
		}
		flush()
	}
}

func comparePairs(a, b pair) int { return slices.Compare(a[:], b[:]) }

func merge(left, right iter.Seq2[pair, error], yield func(inLeft bool, a, b uint64)) error {
	nextLeft, stopLeft := iter.Pull2(left)
	defer stopLeft()
	nextRight, stopRight := iter.Pull2(right)
	defer stopRight()
	l, err, more := nextLeft()
	r, err2, moreRight := nextRight()
	for err == nil && err2 == nil && (more || moreRight) {
		order := 0
		if more && moreRight {
			order = comparePairs(l, r)
		}
		switch {
		case !moreRight || more && order < 0:
			yield(true, l[0], l[1])
			l, err, more = nextLeft()
		case !more || order > 0:
			yield(false, r[0], r[1])
			r, err2, moreRight = nextRight()
		default:
			l, err, more = nextLeft()
			r, err2, moreRight = nextRight()
		}
	}
	return errors.Join(err, err2)
}
