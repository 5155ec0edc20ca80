package bench

import (
	"context"
	"math/bits"
	"runtime"
	"slices"
	"sync"
)

// reference is what the index is compared with: the paper's k+1 tables in memory, a
// sorted array each. A table leads with one of k+1 blocks of bits; a query finds its
// prefix by binary search and compares with every fingerprint that has it.
type reference struct {
	k      int
	tables []referenceTable
}

// referenceTable holds all fingerprints rotated to the left.
type referenceTable struct {
	rotate int
	prefix int
	mask   uint64 // the block, in the fingerprint as it is
	sorted []uint64
}

func newReference(ctx context.Context, c collection, k int) (*reference, error) {
	r := &reference{k: k}
	for first, i := 0, 0; i <= k; i++ {
		width := 64 / (k + 1)
		if i < 64%(k+1) {
			width++
		}
		t := referenceTable{rotate: first, prefix: width, mask: bits.RotateLeft64(^uint64(0)<<(64-width), -first)}
		if err := t.fill(ctx, c); err != nil {
			return nil, err
		}
		r.tables = append(r.tables, t)
		first += width
	}
	return r, nil
}

// sortBits is the part of a fingerprint that is sorted by counting.
const sortBits = 16

// fill puts every fingerprint into the range of those that begin alike, and sorts
// the ranges, on all cores.
func (t *referenceTable) fill(ctx context.Context, c collection) error {
	var ends [1<<sortBits + 1]int
	for i := range c.n {
		ends[bits.RotateLeft64(c.at(i), t.rotate)>>(64-sortBits)+1]++
	}
	for i := range ends[1:] {
		ends[i+1] += ends[i]
	}
	next := ends
	t.sorted = make([]uint64, c.n)
	for i := range c.n {
		if i%(1<<20) == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		v := bits.RotateLeft64(c.at(i), t.rotate)
		t.sorted[next[v>>(64-sortBits)]] = v
		next[v>>(64-sortBits)]++
	}
	var wg sync.WaitGroup
	workers := runtime.GOMAXPROCS(0)
	for w := range workers {
		wg.Go(func() {
			for i := w; i < 1<<sortBits && ctx.Err() == nil; i += workers {
				slices.Sort(t.sorted[ends[i]:ends[i+1]])
			}
		})
	}
	wg.Wait()
	return ctx.Err()
}

// query appends the fingerprints within k bits, each of them once: it is taken from
// the first table whose block has no flip.
func (r *reference) query(fp uint64, found []uint64) []uint64 {
	for i := range r.tables {
		t := &r.tables[i]
		v := bits.RotateLeft64(fp, t.rotate)
		drop := 64 - t.prefix
		first, _ := slices.BinarySearch(t.sorted, v>>drop<<drop)
		for _, candidate := range t.sorted[first:] {
			flips := candidate ^ v
			if flips>>drop != 0 {
				break
			}
			if bits.OnesCount64(flips) <= r.k && !r.foundBefore(i, bits.RotateLeft64(flips, -t.rotate)) {
				found = append(found, bits.RotateLeft64(candidate, -t.rotate))
			}
		}
	}
	return found
}

func (r *reference) foundBefore(table int, flips uint64) bool {
	for i := range table {
		if flips&r.tables[i].mask == 0 {
			return true
		}
	}
	return false
}

// bytes returns the memory of the arrays.
func (r *reference) bytes() int64 {
	return 8 * int64(len(r.tables)) * int64(len(r.tables[0].sorted))
}
