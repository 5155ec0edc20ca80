// Package selfjoin finds every pair of near-duplicates within one collection of
// 64-bit fingerprints, and clusters of them.
//
// Every pair of distinct fingerprints within the distance is found exactly once,
// whatever the collection looks like. Equal fingerprints are one node with a count.
//
// The method is that of the paper's tables (Manku, Jain and Das Sarma, WWW 2007,
// section 3.1) without the tables. Of two fingerprints that differ in at most k of their
// bits, at least one of k+1 blocks of those bits is equal. So the collection is grouped
// by the first block, then by the second, and so on. In the pass by block i, pairs that
// also agree in an earlier block are left to the pass of that block. The others differ in
// i of the k bits already, so k-i+1 blocks are enough to group them again. Groups are
// divided in this way until comparing all of their pairs is cheaper. Each group looks at
// the bits in which its own members differ, so clusters and common prefixes are divided
// as well as random bits.
//
// For k = 3 and ten million random fingerprints that is 4 passes through memory and 10
// through groups that fit in a core's cache, with hardly a comparison without a match. It
// never takes more than a few times as long as comparing all with all, and comes near to
// that only for k above 12 or so, or where most comparisons are matches.
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

// Pair is two fingerprints near each other.
type Pair struct {
	First, Second fp // First < Second
	Distance      int
}

func pairOf(f, g fp) Pair {
	return Pair{min(f, g), max(f, g), f.Distance(g)}
}

// Options of a search.
type Options struct {
	// MaxDistance is k: 0 to 64. There is no default. Up to about 6 the work grows
	// little faster than the collection; above 12 it comes down to comparing all
	// with all.
	MaxDistance int

	// Workers is the number of goroutines; default runtime.GOMAXPROCS(0).
	Workers int
}

var (
	errDistance = errors.New("selfjoin: distance out of range")
	errTooMany  = errors.New("selfjoin: too many fingerprints") // more than nodes can be numbered
)

func (o *Options) check() error {
	if o.MaxDistance < 0 || o.MaxDistance > 64 {
		return fmt.Errorf("%w: k = %d is not in 0..64", errDistance, o.MaxDistance)
	}
	return nil
}

// Each calls found with every pair of distinct fingerprints within the distance, once.
// It does so from Workers goroutines, in no order, some hundreds of pairs at a time
// that are good until found returns; each goroutine has its own number, from 0. An
// error of found ends the search and is returned. Besides the set, about 8 bytes a node
// are taken, and 16 if a large part of all share a prefix. It refuses a distance beyond 64; other errors are
// ctx's.
func (s *Set) Each(ctx context.Context, o Options, found func(worker int, pairs []Pair) error) error {
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

// Pairs yields every pair of distinct fingerprints within the distance, once, in no
// order. It stops at the first error, which it yields. Cost and errors are those of
// Each; what was found ahead of the loop is bounded.
func (s *Set) Pairs(ctx context.Context, o Options) iter.Seq2[Pair, error] {
	return func(yield func(Pair, error) bool) {
		const ahead = 32
		for pairs, err := range ordered.All(ctx, 0, ahead, func(p *ordered.Pipe[[]Pair]) error {
			return s.Each(p.Context(), o, func(_ int, pairs []Pair) error { return p.Send(slices.Clone(pairs)) })
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
