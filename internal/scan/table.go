package scan

import (
	"math/bits"
	"slices"

	"github.com/neardup/neardup/internal/hugepages"
)

// table has all queries in the order of the first bits of one field.
type table struct {
	radiusField
	bucket  field    // the first bits
	mask    uint64   // of the whole field
	flips   []uint64 // of a bucket, within the radius
	starts  []uint32 // of each bucket, and of one more
	keys    []uint64 // the queries
	numbers []uint32 // of each of them
}

// maxBucketBits bounds what starts takes where there are few queries.
const maxBucketBits = 24

func newTable(n radiusField, queries []uint64, numbers []uint32) *table {
	width := min(n.width, maxBucketBits, bits.Len(uint(len(queries))))
	bucket := field{n.first, width}
	t := &table{
		radiusField: n, bucket: bucket, mask: n.mask(), starts: bucket.starts(queries),
		keys: make([]uint64, len(queries)), numbers: make([]uint32, len(queries)),
	}
	// The flips of the bits behind a bucket's lead to the same bucket.
	for _, flip := range flipsOf(n.width, n.radius) {
		t.flips = append(t.flips, flip>>(n.width-width))
	}
	slices.Sort(t.flips)
	t.flips = slices.Compact(t.flips)
	hugepages.Prefer(t.keys)
	hugepages.Prefer(t.numbers)
	next := slices.Clone(t.starts)
	for i, q := range queries {
		at := &next[t.bucket.of(q)]
		t.keys[*at], t.numbers[*at] = q, numbers[i]
		*at++
	}
	return t
}
