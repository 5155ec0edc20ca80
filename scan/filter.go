package scan

import (
	"slices"

	"github.com/neardup/neardup/internal/hugepages"
)

// filter tells for the first bits of a field whether a query is within the radius there.
type filter struct {
	near
	shift int // from a fingerprint to the bits that the filter has
	bits  int
	words []uint64 // a bit for each value
}

// newFilter returns a filter over the first bits of a field, with all variants of the
// queries in it. What differs in the rest of the field passes.
func newFilter(n near, bits int, queries []uint64) *filter {
	f := &filter{near: n, bits: bits, shift: 64 - bits, words: make([]uint64, max(1, 1<<bits/64))}
	hugepages.Prefer(f.words)
	flips := flipsOf(near{field{0, bits}, n.radius})
	for i := range flips {
		flips[i] >>= f.shift & 63
	}
	values, starts, low := f.byRegion(queries)
	for region := range uint64(len(starts) - 1) {
		for _, flip := range flips {
			from := region ^ flip>>low
			for _, v := range values[starts[from]:starts[from+1]] {
				v ^= uint32(flip)
				f.words[v>>6] |= 1 << (v & 63)
			}
		}
	}
	return f
}

// regionBits is the part of a filter that is filled at once: it stays in a core's own
// cache, so that setting a bit takes a nanosecond or two.
const regionBits = 22

// byRegion returns the bits of the queries that the filter looks at, region by region,
// which differ in what is above the low bits.
func (f *filter) byRegion(queries []uint64) (values, starts []uint32, low int) {
	low = min(f.bits, regionBits)
	starts = make([]uint32, 1<<(f.bits-low)+1)
	for _, q := range queries {
		starts[q<<(f.first&63)>>(f.shift&63)>>low+1]++
	}
	for i := range starts[1:] {
		starts[i+1] += starts[i]
	}
	next := slices.Clone(starts)
	values = make([]uint32, len(queries))
	for _, q := range queries {
		v := q << (f.first & 63) >> (f.shift & 63)
		values[next[v>>low]] = uint32(v)
		next[v>>low]++
	}
	return values, starts, low
}

// step is the number of fingerprints that are looked up together.
const step = 1024

// passing sets at to the places of the fingerprints that may be near, and returns how
// many they are. No look waits for the one before.
func (f *filter) passing(fps []uint64, at *[step]uint16) int {
	n := 0
	words, first, shift := f.words, f.first&63, f.shift&63
	for i, fp := range fps[:min(len(fps), step)] {
		v := fp << first >> shift
		at[n&(step-1)] = uint16(i)
		n += int(words[v>>6] >> (v & 63) & 1)
	}
	return n
}

// flipsOf returns the ways to flip bits of a field within the radius.
func flipsOf(n near) []uint64 { return appendFlips(nil, n, 0, n.first, n.radius) }

func appendFlips(dst []uint64, n near, flips uint64, from, left int) []uint64 {
	dst = append(dst, flips)
	if left > 0 {
		for bit := from; bit < n.first+n.width; bit++ {
			dst = appendFlips(dst, n, flips|1<<(63-bit), bit+1, left-1)
		}
	}
	return dst
}
