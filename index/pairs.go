package index

import (
	"context"
	"errors"
	"iter"

	"github.com/neardup/neardup/internal/ordered"
	"github.com/neardup/neardup/internal/selfjoin"
)

// Pair is two groups of documents near each other.
type Pair struct {
	First, Second Group // First.ID < Second.ID
	Distance      int
}

// Pairs yields every pair of groups of documents that match, once, in no order, all of
// one moment. Documents with the same fingerprint are one group, so a page with a
// million copies adds one line for each page near it, not a million.
//
// It reads all fingerprints and IDs into memory and takes about 32 bytes a document; the
// time is that of reading them in order, of selfjoin, and of one read of a record for
// each document of a pair that may have one. It stops at the first error, which it
// yields: ErrDistance, ErrClosed, ErrCorrupt, ctx's. The index must not be closed from
// within the loop.
func (x *Index) Pairs(ctx context.Context, o JoinOptions) iter.Seq2[Pair, error] {
	return func(yield func(Pair, error) bool) {
		err := x.withJoin(ctx, o, func(j *join) error {
			for pairs, err := range ordered.All(ctx, 0, pairsAhead, func(p *ordered.Pipe[[]Pair]) error {
				return j.pairs(p.Context(), p.Send)
			}) {
				if err != nil {
					return err
				}
				for _, p := range pairs {
					if !yield(p, nil) {
						return nil
					}
				}
			}
			return nil
		})
		if err != nil {
			yield(Pair{}, err)
		}
	}
}

// withJoin calls f with a join, within a call of the index.
func (x *Index) withJoin(ctx context.Context, o JoinOptions, f func(*join) error) error {
	if err := x.begin(ctx); err != nil {
		return err
	}
	defer x.end()
	j, err := x.join(ctx, o)
	if err != nil {
		return err
	}
	return errors.Join(f(j), j.close())
}

// pairs sends all pairs, from all workers.
func (j *join) pairs(ctx context.Context, send func([]Pair) error) error {
	if err := j.pairsOfCopies(ctx, send); err != nil {
		return err
	}
	o := selfjoin.Options{MaxDistance: j.k, Workers: j.workers()}
	return j.set.Each(ctx, o, func(worker int, found []selfjoin.Pair) error {
		pairs := make([]Pair, 0, len(found))
		for _, p := range found {
			first, _ := j.set.Node(p.First)
			second, _ := j.set.Node(p.Second)
			if !j.records {
				a, err := j.bare(j.readers[worker], first)
				if err != nil {
					return err
				}
				b, err := j.bare(j.readers[worker], second)
				if err != nil {
					return err
				}
				pairs = j.appendPair(pairs, &a, &b, p.Distance)
				continue
			}
			a, err := j.groups(j.readers[worker], first)
			if err != nil {
				return err
			}
			b, err := j.groups(j.readers[worker], second)
			if err != nil {
				return err
			}
			for i := range a {
				if err := ctx.Err(); err != nil {
					return err
				}
				for k := range b {
					pairs = j.appendPair(pairs, &a[i], &b[k], p.Distance)
				}
				if pairs, err = sendMany(pairs, send); err != nil {
					return err
				}
			}
		}
		return sendAll(pairs, send)
	})
}

// pairsOfCopies sends the pairs within each node.
func (j *join) pairsOfCopies(ctx context.Context, send func([]Pair) error) error {
	if j.starts == nil || !j.Copies && !j.records {
		return nil
	}
	var pairs []Pair
	for node := range selfjoin.Node(j.set.Len()) {
		if j.starts[node+1]-j.starts[node] == 1 {
			continue
		}
		groups, err := j.groups(j.readers[0], node)
		if err != nil {
			return err
		}
		for i := range groups {
			if err := ctx.Err(); err != nil {
				return err
			}
			if g := &groups[i]; j.Copies && g.Documents > 1 {
				pairs = append(pairs, Pair{First: *g, Second: *g})
			}
			for k := range groups[:i] {
				pairs = j.appendPair(pairs, &groups[i], &groups[k], 0)
			}
			if pairs, err = sendMany(pairs, send); err != nil {
				return err
			}
		}
	}
	return sendAll(pairs, send)
}

const (
	pairsAtOnce = 256
	// pairsAhead is how many of these may wait to be used.
	pairsAhead = 32
)

// sendMany sends pairs if they are many, and returns those that are left.
func sendMany(pairs []Pair, send func([]Pair) error) ([]Pair, error) {
	if len(pairs) < pairsAtOnce {
		return pairs, nil
	}
	return nil, send(pairs)
}

func sendAll(pairs []Pair, send func([]Pair) error) error {
	if len(pairs) == 0 {
		return nil
	}
	return send(pairs)
}

func (j *join) appendPair(pairs []Pair, a, b *Group, distance int) []Pair {
	if !j.match(a, b) {
		return pairs
	}
	if a.ID > b.ID {
		a, b = b, a
	}
	return append(pairs, Pair{*a, *b, distance})
}
