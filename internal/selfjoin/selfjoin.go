// Package selfjoin finds all pairs of near-duplicates in a collection of 64-bit fingerprints, and
// clusters of near-duplicates.
//
// It finds every pair of distinct fingerprints within the distance exactly once, for any
// collection. Equal fingerprints are one node with a count.
//
// The method uses the principle of the paper's tables (Manku, Jain and Das Sarma, WWW 2007,
// section 3.1) without tables. If two fingerprints differ in at most k bits, then at least one of
// k+1 blocks of bits is equal in both. Therefore the collection is grouped by the first block,
// then by the second, and so on. The pass for block i skips pairs with an equal earlier block.
// The other pairs differ in i of the k bits already, so k-i+1 blocks suffice to group them again.
// Groups are divided in this way until comparing all of their pairs is cheaper. Each group uses
// the bits in which its own members differ, so clusters and common prefixes are divided as well
// as random bits.
//
// For k = 3 and ten million random fingerprints, the search needs 4 passes through memory and 10
// through groups that fit in a core's cache. It makes few comparisons without a match. It never
// takes more than a few times as long as comparing all pairs. It approaches that time only for k
// above about 12, or if most comparisons match.
//
// A search holds all fingerprints in memory, 16 bytes each.
package selfjoin

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/internal/ordered"
)

type fp = fingerprint.Fingerprint

// Pair is a pair of near fingerprints.
type Pair struct {
	First, Second fp // First < Second
	Distance      int
}

func pairOf(f, g fp) Pair {
	return Pair{min(f, g), max(f, g), f.Distance(g)}
}

// Options configures a search.
type Options struct {
	// MaxDistance is k: 0 to 64. It has no default. Up to about 6, the work grows little faster
	// than the collection. Above 12, it approaches the comparison of all pairs.
	MaxDistance int

	// Workers is the number of goroutines. 0: runtime.GOMAXPROCS(0).
	Workers int
}

var (
	errDistance = errors.New("selfjoin: distance out of range")
	errTooMany  = errors.New("selfjoin: too many fingerprints") // more than maxLen
)

func (o *Options) check() error {
	if o.MaxDistance < 0 || o.MaxDistance > 64 {
		return fmt.Errorf("%w: k = %d is not in 0..64", errDistance, o.MaxDistance)
	}
	return nil
}

// Each calls found with every pair of distinct fingerprints within the distance, once, in no
// particular order. Workers goroutines call found, with several hundred pairs that are valid until
// found returns. Each goroutine has its own number, from 0. If found returns an error, the search
// ends with this error. In addition to the set, the search needs about 8 bytes per node, or 16 if
// a large part of all fingerprints share a prefix. Errors: a MaxDistance outside 0..64, and the
// errors of found and ctx.
func (s *Set) Each(
	ctx context.Context, o Options, found func(worker int, pairs []Pair) error,
) error {
	if err := errors.Join(o.check(), ctx.Err()); err != nil {
		return err
	}
	if o.MaxDistance == 0 || len(s.fps) < 2 {
		return nil
	}
	j := newJoin(o.MaxDistance, o.Workers, found)
	defer context.AfterFunc(ctx, func() { j.fail(context.Cause(ctx)) })()
	j.joinParallel(s.fps, make([]fp, len(s.fps)), constraint{free: ^fp(0), budget: j.k}, false)
	return j.finish()
}

// Pairs yields every pair of distinct fingerprints within the distance, once, in no particular
// order. It stops at the first error, which it yields. It has the cost and the errors of Each. The
// number of pairs that wait for the loop is bounded.
func (s *Set) Pairs(ctx context.Context, o Options) iter.Seq2[Pair, error] {
	return func(yield func(Pair, error) bool) {
		const ahead = 32
		for pairs, err := range ordered.All(ctx, 0, ahead, func(p *ordered.Pipe[[]Pair]) error {
			return s.Each(p.Context(), o, func(_ int, pairs []Pair) error {
				return p.Send(slices.Clone(pairs))
			})
		}) {
			if err != nil {
				yield(Pair{}, err)
				return
			}
			for _, p := range pairs {
				if !yield(p, nil) {
					return
				}
			}
		}
	}
}
