package bench

import (
	"math/bits"

	"github.com/neardup/neardup/internal/radix"
)

// reference is the paper's k+1 tables as sorted arrays in memory. The key of a table begins with one of
// k+1 blocks of bits. A directory has the start and the end of each bucket of leading bits.
type reference struct {
	k      int
	tables []referenceTable
}

// referenceTable holds all fingerprints rotated to the left, so that their block comes first.
type referenceTable struct {
	rotate, prefix int
	sorted         []uint64
	directoryBits  int
	directory      []uint32 // starts of the buckets, and the end of the last one
}

func newReference(c collection, k int) *reference {
	r := &reference{k: k}
	spare := make([]uint64, c.n)
	for first, i := 0, 0; i <= k; i++ {
		t := referenceTable{rotate: first, prefix: (64 + k - i) / (k + 1), sorted: make([]uint64, c.n)}
		for i := range t.sorted {
			t.sorted[i] = bits.RotateLeft64(at(seed, i), first)
		}
		if sorted := radix.Sort(radix.Words(t.sorted), radix.Words(spare)); &sorted[0][0] == &spare[0] {
			t.sorted, spare = spare, t.sorted
		}
		t.directoryBits = min(t.prefix, bits.Len(uint(c.n)))
		t.directory = make([]uint32, 1<<t.directoryBits+1)
		for _, fp := range t.sorted {
			t.directory[fp>>(64-t.directoryBits)+1]++
		}
		for i := range len(t.directory) - 1 {
			t.directory[i+1] += t.directory[i]
		}
		r.tables, first = append(r.tables, t), first+t.prefix
	}
	return r
}

// query appends the fingerprints within k bits. Each one comes from the first table whose block is equal.
func (r *reference) query(fp uint64, found []uint64) []uint64 {
	for i := range r.tables {
		t := &r.tables[i]
		v := bits.RotateLeft64(fp, t.rotate)
		bucket := v >> (64 - t.directoryBits)
		for _, candidate := range t.sorted[t.directory[bucket]:t.directory[bucket+1]] {
			if flips := candidate ^ v; bits.OnesCount64(flips) <= r.k && r.first(bits.RotateLeft64(flips, -t.rotate)) == i {
				found = append(found, bits.RotateLeft64(candidate, -t.rotate))
			}
		}
	}
	return found
}

// first returns the first table whose block has none of these bits.
func (r *reference) first(flips uint64) int {
	for i, t := range r.tables {
		if bits.RotateLeft64(flips, t.rotate)>>(64-t.prefix) == 0 {
			return i
		}
	}
	return -1
}
