package scan

import (
	"slices"

	"github.com/neardup/neardup/internal/hugepages"
)

// filter tells of a fingerprint whether a query may be within the radius in a field. It
// has a word for each value of the field's first bits, so that what is near in order is
// near in memory, and in it two bits by a hash of the whole field.
type filter struct {
	radiusField
	bits  int // of the filter
	words []uint64
}

// newFilter returns a filter of 2^bits with all variants of the queries in it.
func newFilter(n radiusField, bits int, queries []uint64) *filter {
	f := &filter{radiusField: n, bits: bits, words: make([]uint64, 1<<(bits-6))}
	hugepages.Prefer(f.words)
	flips := flipsOf(f.width, n.radius)
	values, starts, low := f.byRegion(queries)
	for region := range uint64(len(starts) - 1) {
		for _, flip := range flips {
			from := region ^ flip>>low
			f.insert(values[starts[from]:starts[from+1]], flip)
		}
	}
	return f
}

// insert sets the bits of values that are changed in some bits.
func (f *filter) insert(values []uint64, flip uint64) {
	words, shift := f.words, (f.width-f.bits+6)&63
	for _, v := range values {
		v ^= flip
		h := v * hashFactor
		words[v>>shift] |= 1<<(h>>58) | 1<<(h>>52&63)
	}
}

// hashFactor is odd, and its bits are as good as random: 2^64 by the golden ratio.
const hashFactor = 0x9e3779b97f4a7c15

// regionBits is the part of a filter that is filled at once: it stays in a core's own
// cache, so that setting a bit takes a nanosecond or two.
const regionBits = 22

// byRegion returns the queries' values in the field, region by region, which differ in
// what is above the low bits.
func (f *filter) byRegion(queries []uint64) (values []uint64, starts []uint32, low int) {
	low = f.width - max(f.bits-regionBits, 1)
	starts = field{f.first, f.width - low}.starts(queries)
	next := slices.Clone(starts)
	values = make([]uint64, len(queries))
	for _, q := range queries {
		v := f.of(q)
		values[next[v>>low]] = v
		next[v>>low]++
	}
	return values, starts, low
}

// step is the number of fingerprints that are looked up together.
const step = 1024

// passing sets at to the places of the fingerprints that may be near, and returns how
// many they are. All words are read before the first is looked at, and no place is
// written before: so a processor waits for as many of them at once as it can.
func (f *filter) passing(fps []uint64, words *[step]uint64, at *[step]uint16) int {
	fps = fps[:min(len(fps), step)]
	read := words[:len(fps)]
	first, shift := f.first&63, (64-f.bits+6)&63
	for i, fp := range fps {
		read[i] = f.words[fp<<first>>shift]
	}
	n := 0
	shift = (64 - f.width) & 63
	for i, word := range read {
		h := fps[i] << first >> shift * hashFactor
		at[n&(step-1)] = uint16(i)
		n += int(word >> (h >> 58) & (word >> (h >> 52 & 63)) & 1)
	}
	return n
}
