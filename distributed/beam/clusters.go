package beam

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"github.com/neardup/neardup/internal/extsort"
	"github.com/neardup/neardup/internal/selfjoin"
)

func init() {
	beam.RegisterDoFn(&contract{})
	beam.RegisterDoFn(&unite{})
	register.Emitter1[Member]()
}

// Clusters returns the connected components of the pairs of a PCollection<Batch>, as
// Components does.
func Clusters(s beam.Scope, o Options, fingerprints beam.PCollection) beam.PCollection {
	return Components(s.Scope("neardup.Clusters"), o, Pairs(s, o, fingerprints))
}

// Components returns the connected components of a PCollection<Pair> as a PCollection<Member>. It
// has one Member per fingerprint, including the smallest fingerprint of each component.
//
// Each bundle keeps only the pairs that are needed to connect its fingerprints, and one worker
// unites the pairs of all bundles. Pairs that do not fit in MemoryBytes, at about 100 bytes per
// pair, go through temporary files of this worker.
func Components(s beam.Scope, o Options, pairs beam.PCollection) beam.PCollection {
	o.must(64)
	s = s.Scope("neardup.Components")
	return beam.ParDo(s, &unite{o.MemoryBytes}, beam.GroupByKey(s,
		beam.ParDo(s, &contract{}, pairs)))
}

// contract reduces the pairs of a bundle to a forest.
type contract struct{ pending []selfjoin.Pair }

const (
	mostPairs = 1 << 20 // the largest number of pairs of a bundle in memory
	blobPairs = 1 << 16 // the largest number of pairs of a blob
)

func (c *contract) StartBundle(context.Context, func(int, []byte)) error {
	c.pending = nil
	return nil
}

func (c *contract) ProcessElement(ctx context.Context, p Pair, emit func(int, []byte)) error {
	if c.pending = append(c.pending, selfjoin.Pair{First: p.First, Second: p.Second}); len(
		c.pending) < mostPairs {
		return nil
	}
	return c.FinishBundle(ctx, emit)
}

// FinishBundle emits the nodes of trees with their roots, all under one key.
func (c *contract) FinishBundle(_ context.Context, emit func(int, []byte)) error {
	var ends, edges []fp
	for _, p := range c.pending {
		ends = append(ends, p.First, p.Second)
	}
	nodes, err := selfjoin.NewSet(ends)
	if err != nil {
		return err
	}
	roots, err := selfjoin.Components(nodes.Len(),
		func(found func([][2]selfjoin.Node) error) error { return found(nodes.Edges(c.pending)) })
	for node, root := range roots {
		if selfjoin.Node(node) != root {
			edges = append(edges, nodes.Fingerprint(selfjoin.Node(node)), nodes.Fingerprint(root))
		}
	}
	for part := range slices.Chunk(edges, 2*blobPairs) {
		emit(0, packed(part))
	}
	c.pending = nil
	return err
}

// unite computes the members of components with the alternating algorithm: rounds of large and
// small stars, until a round changes nothing (Kiveris et al., SoCC 2014).
type unite struct{ Memory int64 }

func (u *unite) ProcessElement(
	ctx context.Context, _ int, blobs func(*[]byte) bool, emit func(Member),
) error {
	edges, err := u.ascending(ctx, edgesOf(blobs))
	for changed := true; err == nil && changed; {
		changed = false
		// Large star: connect each larger neighbor of a node with the smallest neighbor.
		edges, err = u.ascending(ctx,
			stars(edges, func(out []edge, e edge, least uint64, _ bool) []edge {
				if e[1] < e[0] {
					return out
				}
				changed = changed || least != e[0]
				return append(out, edge{e[1], least})
			}))
		if err != nil {
			break
		}
		// Small star: connect a node and its smaller neighbors with the smallest neighbor.
		edges, err = u.ascending(ctx,
			stars(edges, func(out []edge, e edge, least uint64, first bool) []edge {
				node := e[0]
				if !first {
					changed, node = true, e[1]
				}
				return append(out, edge{node, least}, edge{least, node})
			}))
	}
	if err != nil {
		return err
	}
	members := stars(edges, func(_ []edge, e edge, least uint64, first bool) []edge {
		if first {
			emit(Member{fp(least), fp(e[0])})
		}
		return nil
	})
	for _, err := range members {
		if err != nil {
			return err
		}
	}
	return nil
}

// edge connects a node with another node.
type edge = [2]uint64

// edgesOf yields the edges in blobs in both directions, several at a time.
func edgesOf(blobs func(*[]byte) bool) iter.Seq2[[]edge, error] {
	return func(yield func([]edge, error) bool) {
		var blob []byte
		for blobs(&blob) {
			ends, err := unpacked(blob)
			if err == nil && len(ends)%2 != 0 {
				err = fmt.Errorf("%w: %d bytes of edges", errData, len(blob))
			}
			var edges []edge
			for i := 0; i < len(ends) && err == nil; i += 2 {
				a, b := uint64(ends[i]), uint64(ends[i+1])
				edges = append(edges, edge{a, b}, edge{b, a})
			}
			if !yield(edges, err) {
				return
			}
		}
	}
}

// ascending sorts edges by the node, then by the other end, with two stable sorts. Edges that do
// not fit in memory are in temporary files until the caller iterates over them.
func (u *unite) ascending(
	ctx context.Context, edges iter.Seq2[[]edge, error],
) (iter.Seq2[[]edge, error], error) {
	for range 2 {
		s := extsort.New[edge](extsort.Options{MemoryBytes: u.Memory / 2})
		for some, err := range edges {
			for i, e := range some {
				some[i] = edge{e[1], e[0]}
			}
			if err == nil {
				err = s.Add(some...)
			}
			if err != nil {
				return nil, errors.Join(err, s.Close())
			}
		}
		edges = s.Sorted(ctx)
	}
	return edges, nil
}

// stars yields the results of of for the distinct edges, which must be sorted. least is the
// smallest of the node and its neighbors. first is true for the first edge of a node.
func stars(
	edges iter.Seq2[[]edge, error], of func(out []edge, e edge, least uint64, first bool) []edge,
) iter.Seq2[[]edge, error] {
	return func(yield func([]edge, error) bool) {
		var out []edge
		var last edge
		least, begun := uint64(0), false
		for some, err := range edges {
			out = out[:0]
			for _, e := range some {
				if begun && e == last {
					continue
				}
				first := !begun || e[0] != last[0]
				if first {
					least = min(e[0], e[1])
				}
				out = of(out, e, least, first)
				last, begun = e, true
			}
			if !yield(out, err) {
				return
			}
		}
	}
}
