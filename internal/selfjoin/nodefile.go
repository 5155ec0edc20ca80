package selfjoin

import (
	"context"
	"errors"
	"iter"
	"math/bits"

	"github.com/neardup/neardup/internal/extsort"
)

// nodeFile is the fingerprints of a collection that may be in a cluster: those that are
// in a pair, and those that are there more than once.
type nodeFile struct {
	// nodes are the fingerprint, the place of its first copy and the number of copies,
	// ascending.
	nodes *recordFile[[3]uint64]
	// places are those of all copies, node by node, ascending.
	places *recordFile[[1]uint64]
}

// fpFilter tells most fingerprints that are not in a set.
type fpFilter []uint64

func (f fpFilter) bit(p uint64) (word *uint64, mask uint64) {
	h, _ := bits.Mul64(p*0x9e3779b97f4a7c15, 64*uint64(len(f)))
	return &f[h/64], 1 << (h % 64)
}

func (f fpFilter) add(p uint64) {
	word, mask := f.bit(p)
	*word |= mask
}

func (f fpFilter) mayHave(p uint64) bool {
	word, mask := f.bit(p)
	return *word&mask != 0
}

// newNodeFile finds all copies of some fingerprints, which come sorted, in a collection.
func newNodeFile(ctx context.Context, scratch *scratch, memory int64, all *spool, nodes iter.Seq2[[][1]uint64, error]) (n *nodeFile, err error) {
	distinct, err := newRecordFile[[1]uint64](scratch)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, distinct.remove()) }()
	filter := make(fpFilter, max(memory/8/8, 1))
	last, any := uint64(0), false
	for part, err := range nodes {
		if err != nil {
			return nil, err
		}
		for _, r := range part {
			if any && r[0] == last {
				continue
			}
			any, last = true, r[0]
			filter.add(last)
			if err := distinct.add(r); err != nil {
				return nil, err
			}
		}
	}
	if err := distinct.finish(); err != nil {
		return nil, err
	}
	copies := extsort.New[[2]uint64](extsort.Options{MemoryBytes: memory / 2, Dir: scratch.dir})
	defer func() { err = errors.Join(err, copies.Close()) }()
	place := uint64(0)
	var found [][2]uint64
	for part, err := range all.all() {
		found = found[:0]
		for _, r := range part {
			if filter.mayHave(r[0]) {
				found = append(found, [2]uint64{r[0], place})
			}
			place++
		}
		if err = errors.Join(err, copies.Add(ctx, found)); err != nil {
			return nil, err
		}
	}
	if n, err = openNodeFile(scratch); err != nil {
		return nil, err
	}
	return n, n.write(ctx, distinct, copies)
}

func openNodeFile(scratch *scratch) (n *nodeFile, err error) {
	n = &nodeFile{}
	if n.nodes, err = newRecordFile[[3]uint64](scratch); err == nil {
		n.places, err = newRecordFile[[1]uint64](scratch)
	}
	return n, err
}

// write merges the distinct fingerprints with the copies, among which are others.
func (n *nodeFile) write(ctx context.Context, distinct *recordFile[[1]uint64], copies *extsort.Sorter[[2]uint64]) error {
	sorted := newCursor(copies.Sorted(ctx))
	defer sorted.stop()
	c, ok, err := sorted.read()
	for node, nodeErr := range distinct.each() {
		for err == nil && ok && c[0] < node[0] {
			c, ok, err = sorted.read()
		}
		if err = errors.Join(err, nodeErr); err != nil {
			return err
		}
		record := [3]uint64{node[0], c[1], 0}
		for ; err == nil && ok && c[0] == node[0]; c, ok, err = sorted.read() {
			record[2]++
			if err := n.places.add([1]uint64{c[1]}); err != nil {
				return err
			}
		}
		if err = errors.Join(err, n.nodes.add(record)); err != nil {
			return err
		}
	}
	return errors.Join(err, n.nodes.finish(), n.places.finish())
}

func (n *nodeFile) remove() error { return errors.Join(n.nodes.remove(), n.places.remove()) }
