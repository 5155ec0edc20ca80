package beam

import (
	"context"
	"errors"
	"fmt"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"github.com/neardup/neardup/internal/selfjoin"
)

func init() {
	beam.RegisterDoFn(&contract{})
	beam.RegisterDoFn(&finish{})
	register.Emitter1[Member]()
	register.Emitter1[[]byte]()
	register.Emitter1[status]()
}

// ErrRounds: clusters had too little memory, and chains that are too long for the rounds.
var ErrRounds = errors.New("beam: chains of pairs are too long")

// Clusters gives the connected components of the pairs of a PCollection<Batch>, as
// Components does.
func Clusters(s beam.Scope, o Options, fingerprints beam.PCollection) beam.PCollection {
	return Components(s.Scope("neardup.Clusters"), o, Pairs(s, o, fingerprints))
}

// Components gives, for each fingerprint of a PCollection<Pair>, the smallest one that a chain
// of pairs leads to: a PCollection<Member>, with the smallest ones too, each once.
//
// Each bundle keeps no more pairs than connect what it has. Where all that is kept fits in
// MemoryBytes, 64 bytes each, one worker unites it. Else rounds of large and small stars
// (Kiveris et al., SoCC 2014) have all workers join nodes to the smallest one near them until
// it fits or nothing changes. Chains that are not done after 16 of them, of some ten
// thousand, end the pipeline with ErrRounds.
func Components(s beam.Scope, o Options, pairs beam.PCollection) beam.PCollection {
	o.must(64)
	s = s.Scope("neardup.Components")
	edges, states := beam.ParDo2(s, &contract{}, pairs)
	return membersOf(s, &o, edges, states)
}

// membersOf gives the members of all components, of the edges of a graph and what is told of them.
func membersOf(s beam.Scope, o *Options, edges, states beam.PCollection) beam.PCollection {
	return beam.ParDo(s, &finish{o.MemoryBytes}, beam.GroupByKey(s, reduced(s, o, edges, states)))
}

// edge is a node, and one that it is connected with.
type edge = [2]fp

// status is what a bundle tells of its part of the graph.
type status struct{ Edges, Changed int64 }

// uniteBytes is what an edge takes while it is united: its ends, these once more sorted,
// with room for that, and a forest.
const uniteBytes = 64

// united calls found with an edge to the root for each node of a graph, for the roots
// themselves only if roots is true.
func united(edges []edge, roots bool, found func(edge)) error {
	ends := make([]fp, 0, 2*len(edges))
	for _, e := range edges {
		ends = append(ends, e[0], e[1])
	}
	nodes, err := selfjoin.NewSet(ends)
	if err != nil {
		return err
	}
	forest := selfjoin.NewForest(nodes.Len())
	for _, e := range edges {
		a, _ := nodes.Node(e[0])
		b, _ := nodes.Node(e[1])
		forest.Join(a, b)
	}
	forest.Flatten()
	for node, root := range forest {
		if roots || selfjoin.Node(node) != root {
			found(edge{nodes.Fingerprint(selfjoin.Node(node)), nodes.Fingerprint(root)})
		}
	}
	return nil
}

// blobEdges is how many edges go into a blob.
const blobEdges = 1 << 16

func appendEdges(dst []edge, blob []byte) ([]edge, error) {
	if len(blob)%16 != 0 {
		return nil, fmt.Errorf("%w: %d bytes of edges", errData, len(blob))
	}
	ends, err := unpacked(blob)
	for i := 0; i < len(ends); i += 2 {
		dst = append(dst, edge(ends[i:]))
	}
	return dst, err
}

// blobsOf packs edges and hands them on by some.
type blobsOf struct {
	emit func([]byte)
	ends []fp
	n    int64
}

func (b *blobsOf) add(e edge) {
	b.n++
	if b.ends = append(b.ends, e[0], e[1]); len(b.ends) == 2*blobEdges {
		b.flush()
	}
}

func (b *blobsOf) flush() {
	if len(b.ends) > 0 {
		b.emit(packed(b.ends))
		b.ends = b.ends[:0]
	}
}

// contract keeps a forest of the pairs of a bundle.
type contract struct{ pending []edge }

const mostEdges = 1 << 20

func (c *contract) StartBundle(context.Context, func([]byte), func(status)) error {
	c.pending = nil
	return nil
}

func (c *contract) ProcessElement(_ context.Context, p Pair, emit func([]byte), tell func(status)) error {
	if c.pending = append(c.pending, edge{p.Second, p.First}); len(c.pending) < mostEdges {
		return nil
	}
	return c.flush(emit, tell)
}

func (c *contract) FinishBundle(_ context.Context, emit func([]byte), tell func(status)) error {
	return c.flush(emit, tell)
}

func (c *contract) flush(emit func([]byte), tell func(status)) error {
	if len(c.pending) == 0 {
		return nil
	}
	out := blobsOf{emit: emit}
	if err := united(c.pending, false, out.add); err != nil {
		return err
	}
	out.flush()
	tell(status{out.n, 1})
	c.pending = nil
	return nil
}

// all is the key of the edges of a graph that fits; groups have theirs from 0.
const all = -1

// finish gives the members of components: of a graph that fits, or else of each node of a group
// of stars.
type finish struct{ Memory int64 }

func (f *finish) ProcessElement(ctx context.Context, key int, blobs func(*[]byte) bool, emit func(Member)) error {
	if key != all {
		return centers(ctx, f.Memory, blobs, emit)
	}
	var edges []edge
	var blob []byte
	for blobs(&blob) {
		var err error
		if edges, err = appendEdges(edges, blob); err != nil {
			return err
		}
	}
	return united(edges, true, func(e edge) { emit(Member{e[1], e[0]}) })
}
