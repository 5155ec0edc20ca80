package scan

import (
	"fmt"
	"math"
	"math/bits"
	"strings"
)

// plan is the fields by which a collection is compared with a number of queries: each
// pair within k bits is near in one of them at least. None: with one query after the other.
type plan []block

// block is a near field. Its filter says which fingerprints of the collection need a look
// at its tables, which find what is near in it.
type block struct {
	radiusField
	filterBits int // 2^bits in all; 0: no filter
	tables     []radiusField
}

func (d plan) String() string {
	if len(d) == 0 {
		return "one by one"
	}
	var b strings.Builder
	for i, block := range d {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%d bits within %d", block.width, block.radius)
		if block.filterBits > 0 {
			fmt.Fprintf(&b, " (filter of 2^%d bits)", block.filterBits)
		}
	}
	return b.String()
}

// planFor is the rule: two halves, of which one is within half of k; a filter for each
// that is worth it; and tables with a bucket or so for each query. Where looking into the
// tables takes longer than comparing with all queries, that is what is done.
func planFor(queries, k int, o Options) plan {
	blocks := min(k+1, 2)
	var d plan
	each := 0.0
	for _, n := range divide(field{0, 64}, blocks, k+1) {
		parts := min(n.width/bits.Len(uint(queries))+1, n.radius+1)
		b := block{radiusField: n, filterBits: filterBits(queries, n, o, o.FilterBytes/int64(blocks)), tables: divide(n.field, parts, n.radius+1)}
		if b.filterBits == 0 {
			each += tablesCost(queries, b.tables)
		}
		d = append(d, b)
	}
	if queries < oneByOne || each > compareCost*float64(queries) {
		return nil
	}
	return d
}

// Nanoseconds of a core, as measured on a server of 2023 (AMD EPYC).
const (
	bucketCost    = 50  // to find a prefix in a table of queries
	candidateCost = 3   // to compare with a query there
	compareCost   = 1.8 // to compare with one query after the other
	// oneByOne is the number of queries from which on a look into filters costs less.
	oneByOne = 5
)

func tablesCost(queries int, tables []radiusField) float64 {
	sum := 0.0
	for _, t := range tables {
		sum += hammingBallSize(t.width, t.radius) * (bucketCost + candidateCost*float64(queries)/math.Exp2(float64(t.width)))
	}
	return sum
}

const (
	// cachedBits: a filter of less is no faster.
	cachedBits    = 22
	maxFilterBits = 32
	// maxVariants bounds those of a query that a filter takes.
	maxVariants = 1 << 18
)

// filterBits returns the size of a filter in which one word in 16 or less says yes, as
// large as its memory and the time to fill it for a collection allow. It is 0 if no filter
// of that size holds a quarter of that.
func filterBits(queries int, n radiusField, o Options, memory int64) int {
	variants := hammingBallSize(n.width, n.radius)
	if variants > maxVariants {
		return 0
	}
	inserts := bits.Len64(uint64(variants * float64(queries)))
	most := min(maxFilterBits, bits.Len64(uint64(8*memory))-1, bits.Len64(uint64(64*o.Collection))-1)
	size := min(max(cachedBits, inserts+5), most)
	if size < max(minFilterBits, inserts+2) {
		return 0
	}
	return size
}

// minFilterBits is that of a few words.
const minFilterBits = 12
