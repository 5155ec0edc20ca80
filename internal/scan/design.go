package scan

import (
	"fmt"
	"math"
	"strings"
)

// block is a near field of a design. Each pair within k bits is near in one block at
// least. A filter with all variants of the queries in it says which fingerprints of the
// collection need a look at the block's tables; they find what is near in the block.
type block struct {
	near
	filter shape
	tables []near
}

// design is how a collection is compared with a number of queries.
type design struct {
	blocks []block
	each   float64 // expected nanoseconds a fingerprint of the collection
	build  float64 // expected nanoseconds until the first one
}

func (d design) String() string {
	if len(d.blocks) == 0 {
		return "one by one"
	}
	var b strings.Builder
	for i, block := range d.blocks {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%d bits within %d", block.width, block.radius)
		if block.filter.bits > 0 {
			fmt.Fprintf(&b, " (filter of 2^%d bits)", block.filter.bits)
		}
	}
	return b.String()
}

func (d design) total(n int64) float64 { return d.each*float64(n) + d.build }

// choose returns the cheapest design for so many distinct queries that differ in width
// bits. It has no blocks where comparing with all queries is cheaper.
func choose(queries, k, width int, o Options) design {
	best := design{each: float64(queries) * compareCost}
	for blocks := 1; blocks <= min(k+1, width); blocks++ {
		d := design{}
		for _, b := range divide(field{0, width}, blocks, k+1) {
			d.add(queries, b, o.FilterBytes/int64(blocks), o)
		}
		if d.total(o.Collection) < best.total(o.Collection) {
			best = d
		}
	}
	return best
}

// add adds a block with the tables and the filter that suit it best.
func (d *design) add(queries int, b near, memory int64, o Options) {
	added := block{near: b}
	verify, sorted := math.Inf(1), 0.0
	for parts := 1; parts <= min(b.radius+1, b.width); parts++ {
		tables := divide(b.field, parts, b.radius+1)
		if c := tablesCost(queries, tables); c < verify {
			added.tables, verify, sorted = tables, c, sortCost*float64(parts*queries)
		}
	}
	each, build, n := verify, sorted, float64(o.Collection)
	for _, s := range b.shapes() {
		if s.bytes() > memory {
			continue
		}
		lookup := s.lookupCost()
		if o.Sorted && b.first == 0 {
			lookup = min(lookup, cachedLookup+0.5) // next to the one before
		}
		c := lookup + s.passing(queries, b)*(passCost+verify)
		filling := sorted + s.fillingCost(queries, b)
		if c*n+filling < each*n+build {
			each, build, added.filter = c, filling, s
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
