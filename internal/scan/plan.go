package scan

import "math/bits"

// field is a range of bits of a fingerprint. A pair is near in a field if it differs in at most
// radius of these bits.
type field struct {
	first, width int // in bits from the highest
	radius       int
}

// block is a field with a filter of 2^filterBits bits, which selects the fingerprints to look up
// in the tables of its parts. If filterBits is 0, all fingerprints are looked up. In a plan, every
// pair within k bits is near in at least one block, and in at least one part of this block.
type block struct {
	field
	filterBits int
	parts      []field
}

// planFor divides the fingerprint into two halves, and each half into parts with about one query
// per bucket. It returns nil if comparing each fingerprint with every query takes less time.
func planFor(queries, k int, collection int64) (plan []block) {
	probes := 0 // per fingerprint of the collection
	for _, half := range (field{0, 64, k}).divide(min(k+1, 2)) {
		parts := half.divide(min(half.width/bits.Len(uint(queries+1))+1, half.radius+1))
		b := block{half, half.filterFor(queries, collection), parts}
		for _, p := range parts {
			if b.filterBits == 0 {
				probes += ballSize(p.width, p.radius)
			}
		}
		plan = append(plan, b)
	}
	// Fewer than leastQueries are all compared. A probe takes the time of probeCost comparisons.
	const leastQueries, probeCost = 5, 40
	if queries < leastQueries || probes*probeCost > queries {
		return nil
	}
	return plan
}

// Estimate estimates the nanoseconds that Scan takes per fingerprint of a collection.
func Estimate(queries, k int, collection int64) float64 {
	const lookUpFilter, lookUpBucket, compare, passing = 5, 3, 1, 1.0 / 32
	plan := planFor(queries, k, collection)
	if plan == nil {
		return float64(queries) * compare
	}
	ns := 0.0
	for _, b := range plan {
		share := 1.0 // of the fingerprints that are looked up
		if b.filterBits > 0 {
			ns, share = ns+lookUpFilter, passing
		}
		for _, p := range b.parts {
			bucket := float64(queries) / float64(uint64(1)<<min(p.width, maxBucketBits))
			ns += share * float64(ballSize(p.width, p.radius)) * (lookUpBucket + bucket*compare)
		}
	}
	return ns
}

// divide splits a field into parts. A pair that is near in the field is near in at least one part,
// since the sum of radius+1 of the parts is radius+1 of the field.
func (f field) divide(parts int) (out []field) {
	first := f.first
	for i := range parts {
		share := func(n int) int { return (n + parts - 1 - i) / parts }
		out = append(out, field{first, share(f.width), share(f.radius+1) - 1})
		first += share(f.width)
	}
	return out
}

const (
	minFilterBits = 12
	maxFilterBits = 32
	cachedBits    = 22      // a smaller filter is not faster
	maxVariants   = 1 << 18 // of a query in a filter
)

// filterFor returns the filterBits of a filter that passes at most 1 in 16 of unrelated
// fingerprints. For a small collection, or above maxFilterBits, the filter is smaller. filterFor
// returns 0 if the filter would have less than an eighth of that size or less than minFilterBits,
// or if a query has more than maxVariants variants.
func (f field) filterFor(queries int, collection int64) int {
	variants := ballSize(f.width, f.radius)
	if variants > maxVariants {
		return 0
	}
	inserts := bits.Len64(uint64(variants) * uint64(queries))
	size := min(max(cachedBits, inserts+5), maxFilterBits, bits.Len64(uint64(64*collection))-1)
	if size < max(minFilterBits, inserts+2) {
		return 0
	}
	return size
}

// ballSize returns how many numbers of width bits have at most radius bits set.
func ballSize(width, radius int) int {
	sum, choose := 0, 1
	for flips := 0; flips <= radius; flips++ {
		sum += choose
		choose = choose * (width - flips) / (flips + 1)
	}
	return sum
}

// appendFlips appends the numbers of width bits in which the bits of flips are set, and at most
// left of the bits from position from on.
func appendFlips(dst []uint64, width int, flips uint64, from, left int) []uint64 {
	dst = append(dst, flips)
	for bit := from; bit < width && left > 0; bit++ {
		dst = appendFlips(dst, width, flips|1<<(width-1-bit), bit+1, left-1)
	}
	return dst
}

// of returns the field of a fingerprint as a number.
func (f field) of(fp uint64) uint64 { return fp << (f.first & 63) >> ((64 - f.width) & 63) }

// near reports whether flips, the bits in which two fingerprints differ, are within the radius.
func (f *field) near(flips uint64) bool { return bits.OnesCount64(f.of(flips)) <= f.radius }
