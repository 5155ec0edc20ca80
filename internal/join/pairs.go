package join

import (
	"context"

	"github.com/neardup/neardup/internal/ordered"
	"github.com/neardup/neardup/internal/selfjoin"
)

const (
	pairsAtOnce = 256
	// pairsAhead is the number of batches of pairs that may wait for the caller.
	pairsAhead = 32
)

// Pairs yields every pair of groups that match, and every group of several documents with
// itself, once, in no order, until yield returns false.
func Pairs(ctx context.Context, source Source, o Options, yield func(Pair) bool) error {
	j, err := newJoiner(ctx, source, o)
	if err != nil {
		return err
	}
	return yieldEach(ordered.All(ctx, 0, pairsAhead, func(p *ordered.Pipe[[]Pair]) error { return j.pairs(p.Context(), p.Send) }), yield)
}

// pairs sends all pairs, from all workers.
func (j *joiner) pairs(ctx context.Context, send func([]Pair) error) error {
	if err := j.pairsOfCopies(&pairSender{ctx: ctx, joiner: j, send: send}); err != nil {
		return err
	}
	return j.set.Each(ctx, j.options(), func(worker int, found []selfjoin.Pair) error {
		to := &pairSender{ctx: ctx, joiner: j, send: send}
		var a, b []Group
		for _, p := range found {
			first, _ := j.set.Node(p.First)
			second, _ := j.set.Node(p.Second)
			var err error
			if a, err = j.appendGroups(a[:0], j.Readers[worker], first); err != nil {
				return err
			}
			if b, err = j.appendGroups(b[:0], j.Readers[worker], second); err != nil {
				return err
			}
			for i := range a {
				if err := to.add(&a[i], b); err != nil {
					return err
				}
			}
		}
		return to.flush()
	})
}

// pairsOfCopies sends the pairs within each node.
func (j *joiner) pairsOfCopies(to *pairSender) error {
	var groups []Group
	for node := range selfjoin.Node(j.set.Len()) {
		if j.copies(node) == 1 {
			continue
		}
		var err error
		if groups, err = j.appendGroups(groups[:0], j.Readers[0], node); err != nil {
			return err
		}
		for i := range groups {
			others := groups[:i]
			if groups[i].Documents > 1 {
				others = groups[:i+1]
			}
			if err := to.add(&groups[i], others); err != nil {
				return err
			}
		}
	}
	return to.flush()
}

// pairSender sends pairs on, many at once.
type pairSender struct {
	*joiner
	ctx   context.Context
	pairs []Pair
	send  func([]Pair) error
}

// add adds the pairs of a group with the matching ones of other groups.
func (s *pairSender) add(g *Group, others []Group) error {
	for i := range others {
		first, second := &others[i], g
		if !s.Rule.Matches(&first.Document, &second.Document) {
			continue
		}
		if first.ID > second.ID {
			first, second = second, first
		}
		s.pairs = append(s.pairs, Pair{*first, *second, first.Fingerprint.Distance(second.Fingerprint)})
	}
	if len(s.pairs) < pairsAtOnce {
		return s.ctx.Err()
	}
	return s.flush()
}

func (s *pairSender) flush() error {
	if len(s.pairs) == 0 {
		return nil
	}
	pairs := s.pairs
	s.pairs = nil
	return s.send(pairs)
}
