package selfjoin

import (
	"context"
	"errors"
	"iter"

	"github.com/neardup/neardup/internal/extsort"
)

// starring finds the stars of a graph, by the places of the nodes in their collection:
// the first node takes all near it, then the next one that is not taken does. The
// edges are sorted by their earlier node. What is taken is a bit for each place, some
// places at a time; a node that is taken beyond these is told so when its turn comes.
type starring struct {
	ctx     context.Context
	scratch *scratch
	memory  int64
	nodes   *recordFile[[3]uint64]

	begin, end uint64 // the places of now
	taken      []uint64
	later      *recordFile[[3]uint64]     // place, fingerprint and center of a node beyond end
	owners     *extsort.Sorter[[2]uint64] // fingerprint and center of what is taken
}

func (s *starring) sorterOptions() extsort.Options {
	return extsort.Options{MemoryBytes: s.memory / 4, Dir: s.scratch.dir}
}

// labelStars returns the label of each node: its center, or itself. It uses the edges up.
func labelStars(ctx context.Context, scratch *scratch, memory int64, nodes *recordFile[[3]uint64], edges *recordFile[[2]uint64]) (labels *recordFile[[1]uint64], err error) {
	s := &starring{ctx: ctx, scratch: scratch, memory: memory, nodes: nodes, taken: make([]uint64, max(memory/8/8, 1))}
	s.end = 64 * uint64(len(s.taken))
	s.owners = extsort.New[[2]uint64](s.sorterOptions())
	defer func() { err = errors.Join(err, s.owners.Close()) }()
	if s.later, err = newRecordFile[[3]uint64](scratch); err != nil {
		return nil, err
	}
	if err := s.placed(edges, s.take); err != nil {
		return nil, err
	}
	for s.later.len > 0 {
		if err := s.advance(); err != nil {
			return nil, err
		}
	}
	if err := s.later.remove(); err != nil {
		return nil, err
	}
	return s.labels()
}

// placed calls f with all edges, by the place of their earlier end: that place and
// fingerprint, and those of the other end.
func (s *starring) placed(edges *recordFile[[2]uint64], f func(edge [4]uint64) error) error {
	bySecond := extsort.New[[2]uint64](s.sorterOptions())
	byFirst := extsort.New[[3]uint64](s.sorterOptions())
	byPlace := extsort.New[[4]uint64](s.sorterOptions())
	err := func() error {
		for part, err := range edges.all() {
			if err = errors.Join(err, bySecond.Add(s.ctx, part)); err != nil {
				return err
			}
		}
		if err := edges.remove(); err != nil {
			return err
		}
		err := locate(bySecond.Sorted(s.ctx), s.nodes, func(edge [2]uint64, place uint64) error {
			return byFirst.Add(s.ctx, [][3]uint64{{edge[1], edge[0], place}})
		})
		if err != nil {
			return err
		}
		err = locate(byFirst.Sorted(s.ctx), s.nodes, func(edge [3]uint64, place uint64) error {
			record := [4]uint64{place, edge[0], edge[2], edge[1]}
			if record[0] > record[2] {
				record = [4]uint64{record[2], record[3], record[0], record[1]}
			}
			return byPlace.Add(s.ctx, [][4]uint64{record})
		})
		if err != nil {
			return err
		}
		for part, err := range byPlace.Sorted(s.ctx) {
			if err != nil {
				return err
			}
			for _, edge := range part {
				if err := f(edge); err != nil {
					return err
				}
			}
		}
		return nil
	}()
	return errors.Join(err, bySecond.Close(), byFirst.Close(), byPlace.Close())
}

// locate calls f with sorted records, and the place of the node that is the first word.
func locate[R extsort.Record](sorted iter.Seq2[[]R, error], nodes *recordFile[[3]uint64], f func(r R, place uint64) error) error {
	at := newCursor(nodes.all())
	defer at.stop()
	var node [3]uint64
	begun := false
	for part, err := range sorted {
		if err != nil {
			return err
		}
		for _, r := range part {
			for !begun || node[0] < r[0] {
				begun = true
				if node, _, err = at.read(); err != nil {
					return err
				}
			}
			if err := f(r, node[1]); err != nil {
				return err
			}
		}
	}
	return nil
}

// take gives the later end of an edge to the earlier one, if neither is taken.
func (s *starring) take(edge [4]uint64) error {
	for edge[0] >= s.end {
		if err := s.advance(); err != nil {
			return err
		}
	}
	if s.isTaken(edge[0]) {
		return nil
	}
	if edge[2] >= s.end {
		return s.later.add([3]uint64{edge[2], edge[3], edge[1]})
	}
	return s.give(edge[2], edge[3], edge[1])
}

func (s *starring) isTaken(place uint64) bool {
	place -= s.begin
	return s.taken[place/64]>>(place%64)&1 != 0
}

// give gives a node to a center, unless it is taken.
func (s *starring) give(place, f, center uint64) error {
	if s.isTaken(place) {
		return nil
	}
	place -= s.begin
	s.taken[place/64] |= 1 << (place % 64)
	return s.owners.Add(s.ctx, [][2]uint64{{f, center}})
}

// advance goes on to the next places.
func (s *starring) advance() (err error) {
	clear(s.taken)
	s.begin, s.end = s.end, s.end+64*uint64(len(s.taken))
	s.later, err = sift(s.ctx, s.scratch, s.later, func(_ *recordFile[[3]uint64], r [3]uint64) (bool, error) {
		if r[0] >= s.end {
			return false, nil
		}
		return true, s.give(r[0], r[1], r[2])
	})
	return err
}

// labels writes the owner of each node.
func (s *starring) labels() (*recordFile[[1]uint64], error) {
	labels, err := newRecordFile[[1]uint64](s.scratch)
	if err != nil {
		return nil, err
	}
	owners := newCursor(s.owners.Sorted(s.ctx))
	defer owners.stop()
	owner, ok, err := owners.read()
	for node, nodeErr := range s.nodes.each() {
		label := node[0]
		if err == nil && ok && owner[0] == label {
			label = owner[1]
			owner, ok, err = owners.read()
		}
		if err = errors.Join(err, nodeErr); err != nil {
			return nil, err
		}
		if err := labels.add([1]uint64{label}); err != nil {
			return nil, err
		}
	}
	return labels, errors.Join(err, labels.finish())
}
