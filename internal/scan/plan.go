package scan

import (
	"fmt"
	"math/bits"
	"strings"

	"github.com/neardup/neardup/internal/hugepages"
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

func (p plan) String() string {
	if len(p) == 0 {
		return "one by one"
	}
	var b strings.Builder
	for i, block := range p {
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
// that is worth it; and tables with a bucket or so for each query. Few queries are compared
// one by one, and so are many where looking into the tables without a filter takes longer.
func planFor(queries, k int, collection, filterBytes int64) plan {
	blocks := min(k+1, 2)
	var p plan
	probes := 0.0 // for each fingerprint
	for _, n := range divide(field{0, 64}, blocks, k+1) {
		parts := min(n.width/bits.Len(uint(max(queries, 1)))+1, n.radius+1)
		b := block{radiusField: n, filterBits: filterBits(queries, n, collection, filterBytes/int64(blocks)), tables: divide(n.field, parts, n.radius+1)}
		if b.filterBits == 0 {
			for _, t := range b.tables {
				probes += hammingBallSize(t.width, t.radius)
			}
		}
		p = append(p, b)
	}
	if queries < oneByOne || probes*probeCost > float64(queries) {
		return nil
	}
	return p
}

const (
	// oneByOne is the number of queries from which on a look into filters costs less.
	oneByOne = 5
	// probeCost is the number of queries that are compared in the time of a look into a
	// bucket: 30 without what is in it.
	probeCost = 40

	// cachedBits: a filter of less is no faster.
	cachedBits = 22
	// minFilterBits is that of a few words.
	minFilterBits  = 12
	maxFilterBits  = 32
	maxFilterBytes = 1 << 30
	// maxVariants bounds those of a query that a filter takes.
	maxVariants = 1 << 18
)

// filterBits returns the size of a filter in which one word in 16 or less says yes, as
// large as its memory and the time to fill it for a collection allow. It is 0 if no filter
// of that size holds a quarter of that.
func filterBits(queries int, n radiusField, collection, memory int64) int {
	variants := hammingBallSize(n.width, n.radius)
	if variants > maxVariants {
		return 0
	}
	inserts := bits.Len64(uint64(variants * float64(queries)))
	most := min(maxFilterBits, bits.Len64(uint64(8*memory))-1, bits.Len64(uint64(64*collection))-1)
	size := min(max(cachedBits, inserts+5), most)
	if size < max(minFilterBits, inserts+2) {
		return 0
	}
	return size
}

// field is a range of the bits of a fingerprint: width bits, behind the first ones.
type field struct{ first, width int }

// mask has the bits of the field set.
func (f field) mask() uint64 { return ^uint64(0) >> (64 - f.width) << (64 - f.first - f.width) }

// of returns the field of a fingerprint, as a number.
func (f field) of(fp uint64) uint64 { return fp << (f.first & 63) >> ((64 - f.width) & 63) }

// radiusField is a field in which two fingerprints are to differ in so many bits at most.
type radiusField struct {
	field
	radius int
}

// divide splits a field into parts whose radii, one more for each part, come to sum, so
// that what differs in fewer bits than sum is near in some part. The parts with the
// larger radius come first, and are wider where bits are left over.
func divide(f field, parts, sum int) []radiusField {
	var out []radiusField
	first := f.first
	for i := range parts {
		width := f.width / parts
		if i < f.width%parts {
			width++
		}
		radius := sum/parts - 1
		if i < sum%parts {
			radius++
		}
		out = append(out, radiusField{field{first, width}, radius})
		first += width
	}
	return out
}

// flipsOf returns the numbers of so many bits of which at most radius are set.
func flipsOf(width, radius int) []uint64 { return appendFlips(nil, width, 0, 0, radius) }

func appendFlips(dst []uint64, width int, flips uint64, from, left int) []uint64 {
	dst = append(dst, flips)
	if left > 0 {
		for bit := from; bit < width; bit++ {
			dst = appendFlips(dst, width, flips|1<<(width-1-bit), bit+1, left-1)
		}
	}
	return dst
}

// hammingBallSize returns how many numbers of so many bits are within a radius of one.
func hammingBallSize(width, radius int) float64 {
	sum, choose := 0.0, 1.0
	for flips := 0; flips <= min(radius, width); flips++ {
		sum += choose
		choose *= float64(width-flips) / float64(flips+1)
	}
	return sum
}

// starts returns where the queries of each value of the field start when they are ordered
// by it, and where the last ones end.
func (f field) starts(queries []uint64) []uint32 {
	starts := make([]uint32, 1<<f.width+1)
	hugepages.Prefer(starts)
	for _, q := range queries {
		starts[f.of(q)+1]++
	}
	for i := range starts[1:] {
		starts[i+1] += starts[i]
	}
	return starts
}
