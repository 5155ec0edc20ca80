package selfjoin

import (
	"context"
	"errors"
	"sync"

	"github.com/neardup/neardup/internal/extsort"
)

// edges takes the pairs of a collection in files: as they are, or contracted, which
// leaves the components what they are.
type edges struct {
	mu       sync.Mutex
	contract bool
	batch    [][2]uint64                // the larger fingerprint first
	file     *recordFile[[2]uint64]     // those that had no room
	nodes    *extsort.Sorter[[1]uint64] // of what is in file, and what is repeated
}

// edgeBytes is what contracting takes for an edge: itself, its two nodes, room to sort
// these, their forest and directory.
const edgeBytes = 16 + 16 + 16 + 16

func newEdges(scratch *scratch, memory int64, contract bool) (*edges, error) {
	file, err := newRecordFile[[2]uint64](scratch)
	return &edges{
		contract: contract,
		batch:    make([][2]uint64, 0, memory/2/edgeBytes),
		file:     file,
		nodes:    extsort.New[[1]uint64](extsort.Options{MemoryBytes: memory / 2, Dir: scratch.dir}),
	}, err
}

func (e *edges) add(ctx context.Context, pairs []Pair) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, p := range pairs {
		if len(e.batch) == cap(e.batch) {
			if err := e.makeRoom(ctx); err != nil {
				return err
			}
		}
		e.batch = append(e.batch, [2]uint64{uint64(p.Second), uint64(p.First)})
	}
	return nil
}

// repeated adds a node that needs no edge.
func (e *edges) repeated(ctx context.Context, f fp) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.nodes.Add(ctx, [][1]uint64{{uint64(f)}})
}

// makeRoom writes the batch, unless contracting it makes room. Groups near each other
// have far more edges than nodes, and come together.
func (e *edges) makeRoom(ctx context.Context) error {
	if e.contract {
		var err error
		if e.batch, err = contracted(e.batch); err != nil || len(e.batch) < cap(e.batch)/2 {
			return err
		}
	}
	return e.write(ctx)
}

func (e *edges) write(ctx context.Context) error {
	nodes := make([][1]uint64, 0, 1024)
	for _, edge := range e.batch {
		if err := e.file.add(edge); err != nil {
			return err
		}
		if nodes = append(nodes, [1]uint64{edge[0]}, [1]uint64{edge[1]}); len(nodes) == cap(nodes) {
			if err := e.nodes.Add(ctx, nodes); err != nil {
				return err
			}
			nodes = nodes[:0]
		}
	}
	e.batch = e.batch[:0]
	return e.nodes.Add(ctx, nodes)
}

// finish makes all that was added ready to be read.
func (e *edges) finish(ctx context.Context) (err error) {
	if e.contract {
		if e.batch, err = contracted(e.batch); err != nil {
			return err
		}
	}
	err = e.write(ctx)
	e.batch = nil
	return errors.Join(err, e.file.finish())
}

// contracted returns edges, fewer than there are nodes, that connect the same nodes. It
// uses the same memory.
func contracted(batch [][2]uint64) ([][2]uint64, error) {
	ends := make([]fp, 0, 2*len(batch))
	for _, edge := range batch {
		ends = append(ends, fp(edge[0]), fp(edge[1]))
	}
	set, err := NewSet(ends)
	if err != nil {
		return nil, err
	}
	roots := newForest(set.Len())
	for _, edge := range batch {
		a, _ := set.Node(fp(edge[0]))
		b, _ := set.Node(fp(edge[1]))
		roots.join(a, b)
	}
	batch = batch[:0]
	for node := range Node(set.Len()) {
		if root := roots.root(node); root != node {
			batch = append(batch, [2]uint64{uint64(set.Fingerprint(node)), uint64(set.Fingerprint(root))})
		}
	}
	return batch, nil
}
