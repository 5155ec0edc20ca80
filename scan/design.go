package scan

import (
	"fmt"
	"math"
	"strings"
)

// field is a range of the bits of a fingerprint: width bits, behind the first ones.
type field struct{ first, width int }

// mask has the bits of the field set.
func (f field) mask() uint64 { return ^uint64(0) >> (64 - f.width) << (64 - f.first - f.width) }

// near is a field in which two fingerprints are to differ in so many bits at most.
type near struct {
	field
	radius int
}

// block is a near field of a design. Each pair within k bits is near in one block at
// least. A filter over the first bits of the block, with all variants of the queries
// in it, says which fingerprints of the collection need a look at the block's tables;
// they find what is near in the whole block.
type block struct {
	near
	filterBits int // 0: no filter
	tables     []near
}

// design is how a collection is compared with a number of queries.
type design struct {
	blocks []block
	each   float64 // expected nanoseconds a fingerprint of the collection
	build  float64 // expected nanoseconds until the first one
}

func (d design) String() string {
	var b strings.Builder
	for i, block := range d.blocks {
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

// Nanoseconds, of a common server; they only choose among designs that are all right.
const (
	insertCost    = 6   // to set a bit of a filter
	clearCost     = 0.3 // to get a byte of a filter from the system
	bucketCost    = 25  // to find a prefix in a table of queries
	candidateCost = 2   // to compare with a query
	sortCost      = 40  // to put a query into a table
	passCost      = 10  // to come back to a fingerprint that a filter lets through
)

// lookupCost is what a look into a filter of so many bits takes: the processor's own
// cache, the shared one, and memory, with many looks under way at once.
func lookupCost(filterBits int) float64 {
	switch {
	case filterBits <= 22: // 512 KiB
		return 1.5
	case filterBits <= 26: // 8 MiB
		return 3
	case filterBits <= 28:
		return 5
	}
	return 8 + float64(filterBits-30)
}

const (
	minFilterBits = 12
	maxFilterBits = 32
)

// choose returns the cheapest design for so many distinct queries and a collection of
// n fingerprints, with filters of at most memory bytes.
func choose(queries, n int, k int, memory int64) design {
	best := design{each: math.Inf(1)}
	for blocks := 1; blocks <= k+1; blocks++ {
		d := design{}
		for _, b := range divide(field{0, 64}, blocks, k+1) {
			d.add(queries, n, b, memory/int64(blocks))
		}
		if d.total(n) < best.total(n) {
			best = d
		}
	}
	return best
}

func (d design) total(n int) float64 { return d.each*float64(n) + d.build }

// divide splits a field into parts whose radii, one more for each part, come to sum, so
// that what differs in fewer bits than sum is near in some part. The parts with the
// larger radius come first, and are wider where bits are left over.
func divide(f field, parts, sum int) []near {
	var out []near
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
		out = append(out, near{field{first, width}, radius})
		first += width
	}
	return out
}

// add adds a block with the tables and the filter that suit it best.
func (d *design) add(queries, n int, b near, memory int64) {
	added := block{near: b}
	verify, sorted := math.Inf(1), 0.0
	for parts := 1; parts <= min(b.radius+1, b.width); parts++ {
		tables := divide(b.field, parts, b.radius+1)
		if c := tablesCost(queries, tables); c < verify {
			added.tables, verify, sorted = tables, c, sortCost*float64(parts*queries)
		}
	}
	each, build := verify, sorted
	for bits := min(minFilterBits, b.width); bits <= min(maxFilterBits, b.width) && 1<<bits/8 <= memory; bits++ {
		inserts := float64(queries) * ball(bits, b.radius)
		passing := -math.Expm1(-inserts / math.Exp2(float64(bits)))
		c := lookupCost(bits) + passing*(passCost+verify)
		filling := sorted + insertCost*inserts + clearCost*math.Exp2(float64(bits))/8
		if c*float64(n)+filling < each*float64(n)+build {
			each, build, added.filterBits = c, filling, bits
		}
	}
	d.each += each
	d.build += build
	d.blocks = append(d.blocks, added)
}

func tablesCost(queries int, tables []near) float64 {
	sum := 0.0
	for _, t := range tables {
		sum += ball(t.width, t.radius) * (bucketCost + candidateCost*float64(queries)/math.Exp2(float64(t.width)))
	}
	return sum
}

// ball returns how many values of so many bits are within a radius of one.
func ball(width, radius int) float64 {
	sum, choose := 0.0, 1.0
	for flips := 0; flips <= min(radius, width); flips++ {
		sum += choose
		choose *= float64(width-flips) / float64(flips+1)
	}
	return sum
}
