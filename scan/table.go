package scan

import (
	"math/bits"
	"slices"

	"github.com/neardup/neardup/internal/hugepages"
)

// table has all queries in the order of one field.
type table struct {
	near
	mask   uint64
	flips  []uint64 // within the radius, as bits of a rotated fingerprint
	shift  int      // from a rotated fingerprint to its bucket
	starts []uint32 // of each bucket, and of one more
	keys   []uint64 // rotated, so that the field leads
	query  []uint32 // distinct query, for each key
}

// maxBucketBits bounds what starts takes where there are few queries.
const maxBucketBits = 24

func newTable(n near, queries []uint64) *table {
	t := &table{near: n, mask: n.mask(), keys: make([]uint64, len(queries)), query: make([]uint32, len(queries))}
	width := min(n.width, maxBucketBits, bits.Len(uint(len(queries))))
	t.shift = 64 - width
	// The flips of the bits behind a bucket's lead to the same bucket.
	seen := make(map[uint64]bool)
	for _, flip := range flipsOf(near{field{0, n.width}, n.radius}) {
		if flip = flip >> (t.shift & 63); !seen[flip] {
			seen[flip] = true
			t.flips = append(t.flips, flip)
		}
	}
	slices.Sort(t.flips)
	t.starts = make([]uint32, 1<<width+1)
	for _, q := range queries {
		t.starts[t.bucket(q)+1]++
	}
	for i := range t.starts[1:] {
		t.starts[i+1] += t.starts[i]
	}
	hugepages.Prefer(t.keys)
	next := slices.Clone(t.starts)
	for i, q := range queries {
		b := t.bucket(q)
		t.keys[next[b]], t.query[next[b]] = q, uint32(i)
		next[b]++
	}
	return t
}

// bucket returns the first bits of the field.
func (t *table) bucket(fp uint64) uint64 {
	if t.shift == 64 {
		return 0
	}
	return fp << (t.first & 63) >> (t.shift & 63)
}
