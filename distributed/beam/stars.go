package beam

import (
	"context"
	"errors"
	"fmt"
	"math/bits"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"github.com/neardup/neardup/internal/extsort"
)

func init() {
	beam.RegisterDoFn(&route{})
	beam.RegisterDoFn(&largeStar{})
	beam.RegisterDoFn(&smallStar{})
	register.Iter1[status]()
}

// maxRounds is enough for chains of some ten thousand, each round halving them. One that is
// not needed costs a pipeline a few empty stages.
const maxRounds = 16

// reduced gives the edges of a graph that fits, all with one key, or else the edges of stars by
// group, in both directions.
func reduced(s beam.Scope, o *Options, edges, states beam.PCollection) beam.PCollection {
	var reduced []beam.PCollection
	for round := range o.rounds + 1 {
		to := &route{Limit: o.edges, Groups: o.Groups, Last: round == o.rounds}
		done, next := beam.ParDo2(s, to, edges, beam.SideInput{Input: states})
		reduced = append(reduced, done)
		if to.Last {
			break
		}
		large, before := beam.ParDo2(s, &largeStar{o.Groups, o.MemoryBytes}, beam.GroupByKey(s, next))
		small, after := beam.ParDo2(s, &smallStar{o.MemoryBytes}, beam.GroupByKey(s, large))
		edges, states = small, beam.Flatten(s, before, after)
	}
	return beam.Flatten(s, reduced...)
}

// route sends edges where all that is told of the graph wants them.
type route struct {
	Limit  int64
	Groups int
	Last   bool
}

func (r *route) ProcessElement(_ context.Context, blob []byte, states func(*status) bool, done, next func(int, []byte)) error {
	var graph, part status
	for states(&part) {
		graph.Edges += part.Edges
		graph.Changed += part.Changed
	}
	switch {
	case graph.Edges <= r.Limit:
		done(all, blob)
		return nil
	case r.Last && graph.Changed > 0:
		return fmt.Errorf("%w: the graph still has %d edges, and memory is for %d: give more MemoryBytes", ErrRounds, graph.Edges, r.Limit)
	case graph.Changed == 0:
		next = done
	}
	edges, err := appendEdges(nil, blob)
	if err != nil {
		return err
	}
	out := newGroups(r.Groups, next)
	for _, e := range edges {
		out.add(e)
		out.add(edge{e[1], e[0]})
	}
	out.flush()
	return nil
}

// groupsOf packs edges by the group of their first node.
type groupsOf struct {
	groups []blobsOf
	shift  int
}

func newGroups(n int, emit func(int, []byte)) *groupsOf {
	g := &groupsOf{groups: make([]blobsOf, n), shift: 65 - bits.Len(uint(n))}
	for i := range g.groups {
		g.groups[i].emit = func(blob []byte) { emit(i, blob) }
	}
	return g
}

func (g *groupsOf) add(e edge) {
	const golden = 0x9e3779b97f4a7c15
	g.groups[uint64(e[0])*golden>>g.shift].add(e)
}

func (g *groupsOf) flush() {
	for i := range g.groups {
		g.groups[i].flush()
	}
}

// ascending calls found with the different edges of a group, ascending by node, and of one
// node by the other end. It sorts them by the other end and then by the node, since what is equal stays
// in order; what memory does not hold, in temporary files.
func ascending(ctx context.Context, memory int64, blobs func(*[]byte) bool, found func(edge)) (err error) {
	byOther := extsort.New[[2]uint64](extsort.Options{MemoryBytes: memory / 2})
	byNode := extsort.New[[2]uint64](extsort.Options{MemoryBytes: memory / 2})
	defer func() { err = errors.Join(err, byOther.Close(), byNode.Close()) }()
	var edges []edge
	var blob []byte
	for blobs(&blob) {
		if edges, err = appendEdges(edges[:0], blob); err != nil {
			return err
		}
		if err := byOther.Add(ctx, turnedRecords(edges)); err != nil {
			return err
		}
	}
	for run, err := range byOther.Sorted(ctx) {
		if err != nil {
			return err
		}
		for i, r := range run {
			run[i] = [2]uint64{r[1], r[0]}
		}
		if err := byNode.Add(ctx, run); err != nil {
			return err
		}
	}
	last := edge{}
	for run, err := range byNode.Sorted(ctx) {
		if err != nil {
			return err
		}
		for _, r := range run {
			if e := (edge{fp(r[0]), fp(r[1])}); e != last { // no node has an edge to itself
				found(e)
				last = e
			}
		}
	}
	return nil
}

// turnedRecords has the other end of each edge first.
func turnedRecords(edges []edge) [][2]uint64 {
	records := make([][2]uint64, len(edges))
	for i, e := range edges {
		records[i] = [2]uint64{uint64(e[1]), uint64(e[0])}
	}
	return records
}

// smallest follows edges that come in order, and knows the smallest of a node and those
// near it.
type smallest struct {
	node, least fp
	begun       bool
}

// next reports whether the edge is the first one of its node.
func (s *smallest) next(e edge) bool {
	if s.begun && s.node == e[0] {
		return false
	}
	*s = smallest{e[0], min(e[0], e[1]), true}
	return true
}

// largeStar connects all that is near a node and larger with the smallest one near it. It
// has each edge from both ends.
type largeStar struct {
	Groups int
	Memory int64
}

func (l *largeStar) ProcessElement(ctx context.Context, _ int, blobs func(*[]byte) bool, emit func(int, []byte), tell func(status)) error {
	out, at, told := newGroups(l.Groups, emit), smallest{}, status{}
	err := ascending(ctx, l.Memory, blobs, func(e edge) {
		at.next(e)
		if e[1] > e[0] {
			out.add(edge{e[1], at.least})
			if at.least != e[0] {
				told.Changed++
			}
		}
	})
	out.flush()
	tell(told)
	return err
}

// smallStar connects a node, and all that is near it and smaller, with the smallest of
// these. It has each edge at its larger end.
type smallStar struct{ Memory int64 }

func (l *smallStar) ProcessElement(ctx context.Context, _ int, blobs func(*[]byte) bool, emit func([]byte), tell func(status)) error {
	out, at, told := blobsOf{emit: emit}, smallest{}, status{}
	err := ascending(ctx, l.Memory, blobs, func(e edge) {
		if at.next(e) {
			out.add(e)
			return
		}
		out.add(edge{e[1], at.least})
		told.Changed++
	})
	out.flush()
	told.Edges = out.n
	tell(told)
	return err
}

// centers gives the members of stars, from the edges of each node of a group.
func centers(ctx context.Context, memory int64, blobs func(*[]byte) bool, emit func(Member)) error {
	at := smallest{}
	return ascending(ctx, memory, blobs, func(e edge) {
		if at.next(e) {
			emit(Member{at.least, e[0]})
		}
	})
}
