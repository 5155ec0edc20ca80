package scan

import (
	"math/bits"
	"slices"

	"github.com/neardup/neardup/internal/hugepages"
)

// table has all queries in buckets, by the first bits of a field.
type table struct {
	field
	shift   int      // from the field to the number of a bucket
	flips   []uint64 // of the number of a bucket, within the radius
	starts  []uint32 // of each bucket, and the end of the last one
	keys    []uint64 // the queries by bucket
	numbers []uint32 // the number of each query among the distinct ones
}

// maxBucketBits bounds the memory of starts.
const maxBucketBits = 24

func newTable(f field, queries []uint64) *table {
	width := min(f.width, maxBucketBits, bits.Len(uint(len(queries))))
	t := &table{
		field: f, shift: f.width - width, starts: make([]uint32, 1<<width+1),
		keys: make([]uint64, len(queries)), numbers: make([]uint32, len(queries)),
	}
	hugepages.Prefer(t.starts)
	hugepages.Prefer(t.keys)
	hugepages.Prefer(t.numbers)
	for _, flip := range appendFlips(nil, f.width, 0, 0, f.radius) {
		t.flips = append(t.flips, flip>>t.shift)
	}
	slices.Sort(t.flips)
	t.flips = slices.Compact(t.flips)
	for _, q := range queries {
		t.starts[t.bucketOf(q)+1]++
	}
	for i := range t.starts[1:] {
		t.starts[i+1] += t.starts[i]
	}
	next := slices.Clone(t.starts)
	for i, q := range queries {
		at := &next[t.bucketOf(q)]
		t.keys[*at], t.numbers[*at] = q, uint32(i)
		*at++
	}
	return t
}

func (t *table) bucketOf(fp uint64) uint64 { return t.of(fp) >> t.shift }

// filter reports which fingerprints may be near a query in a field. It has one word per value of
// the field's first bits, so that a sorted collection reads the words in order. A hash of the whole
// field selects two bits of the word.
type filter struct {
	field
	bits  int // of the filter
	words []uint64
}

// newFilter returns a filter of 2^bits bits. It adds all values that are near a query in the field.
func newFilter(f field, bits int, queries []uint64) *filter {
	t := &filter{field: f, bits: bits, words: make([]uint64, 1<<(bits-6))}
	hugepages.Prefer(t.words)
	values := make([]uint64, len(queries))
	for i, q := range queries {
		values[i] = f.of(q)
	}
	slices.Sort(values)
	shift := (f.width - bits + 6) & 63
	flips := appendFlips(nil, f.width, 0, 0, f.radius)
	// The words of a chunk fit in the processor's cache together, except for flips of high bits.
	for chunk := range slices.Chunk(values, max(len(values)>>max(bits-cachedBits, 0), 1)) {
		for _, flip := range flips {
			for _, v := range chunk {
				v ^= flip
				h := v * hashFactor
				t.words[v>>shift] |= 1<<(h>>58) | 1<<(h>>52&63)
			}
		}
	}
	return t
}

// hashFactor is 2^64 divided by the golden ratio, rounded to an odd number.
const hashFactor = 0x9e3779b97f4a7c15

// passing returns the positions of the fingerprints to look up, in the memory of at. It reads all
// words of the filter before it uses the first word. It writes every position, so that no branch
// depends on memory that is still being read. A nil filter passes all fingerprints.
func (f *filter) passing(fps []uint64, words *[step]uint64, at *[step]uint16) []uint16 {
	fps = fps[:min(len(fps), step)]
	if f == nil {
		for i := range fps {
			at[i] = uint16(i)
		}
		return at[:len(fps)]
	}
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
	return at[:n]
}
