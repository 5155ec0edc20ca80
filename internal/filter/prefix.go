// Package filter avoids searches on disk with filters in memory. A Prefix reports whether a table
// may have a fingerprint with a given prefix. A multiIndex finds all fingerprints near a given
// fingerprint. A PackedSet, a LiveSet and a KeySet use them for the packed entries, the live
// entries and the keys of an index. They load in the background.
//
// After a fingerprint was added, every goroutine finds it, also while a set loads or grows. A
// Prefix may also report a fingerprint that was not added; a multiIndex never does. No filter needs
// more memory than its budget.
package filter

import (
	"math"
	"math/bits"
	"runtime"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/neardup/neardup/internal/offheap"
	"github.com/neardup/neardup/internal/prefetch"
)

// Prefix reports whether a table may have a fingerprint with a given prefix, the highest bits of
// the permuted fingerprint. A filter with more fingerprints than expected becomes less selective.
// All methods take the whole permuted fingerprint and use only its prefix.
//
// A Prefix is safe for concurrent use. A lookup finds every fingerprint whose Add happened before
// it, so a commit calls Add before it becomes visible.
//
// If 2^prefix bits are cheap, the filter is an array of bits, and its answers are exact. Otherwise,
// it is a blocked Bloom filter (Putze, Sanders and Singler, "Cache-, Hash- and Space-Efficient
// Bloom Filters", 2007) for lookups of a whole neighborhood. The prefix without its low lineBits
// bits selects a line of eight 64-bit words. In each word, the bit with the number of the lowest
// six bits of the prefix is set, rotated by a number that depends on the word and on all other
// bits. The AND of the words, rotated back, answers for the 64 prefixes that differ only in the
// lowest six bits.
type Prefix struct {
	prefix   int
	form     filterForm
	lineBits int // the number of low bits of the prefix that do not change the line
	chooser  chooser
	lines    []line // in a bit array, bit i of word j of line l is prefix 512 l + 64 j + i
}

type filterForm byte

const (
	filterNone filterForm = iota // no filter
	filterBits
	filterBlocked
)

// line is a cache line.
type line [8]uint64

const (
	lineBytes = 64
	GroupBits = 6 // one word answers for all prefixes that differ only in these low bits

	// maxLineBits limits the number of neighbors in a line, since a dense region of the data can
	// fill the line. With at least minGroups groups of neighbors per line, the lines fill evenly.
	maxLineBits = 11
	minGroups   = 4

	// bitsPerFingerprint is the size of a blocked filter if the budget allows it.
	bitsPerFingerprint = 20
	// A bit array has at most maxArrayBits bits per expected fingerprint, or at most
	// smallArray bytes.
	maxArrayBits = 32
	smallArray   = 1 << 20
)

// New returns an empty filter of at most budget bytes, for a table whose prefix has 1 to 64 bits
// and for an expected number of fingerprints. The filter is a bit array if that is small compared
// with the number of fingerprints. Otherwise, it has 20 bits per fingerprint, or fewer if the
// budget is smaller. New returns nil if a filter is useless: if the budget is below 64 bytes, or if
// nearly every prefix has a fingerprint.
func New(prefix int, expected, budget int64) *Prefix {
	if !ofUse(prefix, expected, budget) {
		return nil
	}
	return fit(prefix, expected, budget)
}

// ofUse reports whether New would return a filter.
func ofUse(prefix int, expected, budget int64) bool {
	return (prefix >= 62 || expected <= 2<<prefix) && budget >= lineBytes
}

// fit is like New, but returns a filter even if nearly every prefix has a fingerprint.
func fit(prefix int, expected, budget int64) *Prefix {
	form, lines := layout(prefix, expected, budget)
	if form == filterNone {
		return nil
	}
	lineBits := 0
	if form == filterBlocked {
		lineBits = lineBitsFor(prefix, lines)
	}
	return newFilter(prefix, form, lineBits, lines)
}

// layout returns the form of a filter and its number of lines.
func layout(prefix int, expected, budget int64) (filterForm, int64) {
	if budget < lineBytes {
		return filterNone, 0
	}
	expected = max(expected, 1)
	if lines, ok := arrayLines(prefix); ok && lines <= budget/lineBytes &&
		(lines*lineBytes <= smallArray || lines*(512/maxArrayBits) <= expected) {
		return filterBits, lines
	}
	wanted := expected/512*bitsPerFingerprint + expected%512*bitsPerFingerprint/512 + 1
	return filterBlocked, min(budget/lineBytes, wanted)
}

// Size returns the size in bytes of the filter that fit returns, and the probability that the
// filter reports a prefix without a fingerprint.
func Size(prefix int, expected, budget int64) (bytes int64, falsePositives float64) {
	form, lines := layout(prefix, expected, budget)
	switch form {
	case filterNone:
		return 0, 1
	case filterBits:
		return lines * lineBytes, 0
	}
	return lines * lineBytes, lineFull(float64(expected) / float64(lines))
}

// lineFull returns the probability that all eight words of a line have a given bit set. The
// number of fingerprints in the line has a Poisson distribution, so given bits of j words are
// all unset with probability exp(-mean (1 - (63/64)^j)).
func lineFull(mean float64) float64 {
	sum, choose := 0.0, 1.0
	for j := range len(line{}) + 1 {
		sum += choose * math.Exp(-mean*(1-math.Pow(63./64, float64(j))))
		choose *= -float64(len(line{})-j) / float64(j+1)
	}
	return min(max(sum, 0), 1)
}

// leastOffHeap is the number of bytes from which lines are allocated outside the Go heap. They are
// freed with their filter, so every function that reads them keeps the filter alive.
const leastOffHeap = 1 << 20

func newFilter(prefix int, form filterForm, lineBits int, lines int64) *Prefix {
	f := &Prefix{prefix: prefix, form: form, lineBits: lineBits}
	if lines*lineBytes < leastOffHeap {
		f.lines = make([]line, lines)
	} else {
		var free func()
		f.lines, free = offheap.Make[line](int(lines))
		runtime.AddCleanup(f, func(free func()) { free() }, free)
	}
	if form == filterBlocked {
		f.chooser = newChooser(prefix, lineBits, len(f.lines))
	}
	return f
}

// arrayLines returns the number of lines of a bit array, if it fits in an int64.
func arrayLines(prefix int) (n int64, ok bool) {
	return 1 << max(prefix-9, 0), prefix < 64
}

// lineBitsFor returns the number of low prefix bits that do not change the line.
func lineBitsFor(prefix int, lines int64) int {
	groups := bits.Len64(uint64(lines)*minGroups - 1) // 2^groups groups suffice
	return max(GroupBits, min(maxLineBits, prefix-groups))
}

// Bytes returns the memory of the filter.
func (f *Prefix) Bytes() int64 { return int64(len(f.lines)) * lineBytes }

// split returns the number of the group of 64 prefixes that has the prefix, and the position in it.
func (f *Prefix) split(permuted uint64) (group uint64, low int) {
	p := permuted >> ((64 - f.prefix) & 63)
	return p >> GroupBits, int(p & 63)
}

// Odd multipliers: 2^64 over the golden ratio, and a prime of xxHash64.
const (
	lineMultiplier     = 0x9e3779b97f4a7c15
	rotationMultiplier = 0xc2b2ae3d27d4eb4f
)

// chooser selects the line of a group in a blocked filter.
type chooser struct {
	drop  int // the number of ignored low bits of a group
	up    int // the shift that moves the top bit of the product to bit 63
	lines uint64
}

func newChooser(prefix, lineBits, lines int) chooser {
	return chooser{lineBits - GroupBits, 64 - prefix + lineBits, uint64(lines)}
}

// lineOf returns the line of a group. The product is taken modulo the number of different inputs, a
// power of two, so it is a permutation of the inputs. The numbers of inputs per line differ by at
// most one.
func (c chooser) lineOf(group uint64) uint64 {
	product := group >> (c.drop & 63) * lineMultiplier << (c.up & 63)
	at, _ := bits.Mul64(product, c.lines)
	return at
}

// rotations returns the rotations of a group in the words of its line: six bits per word, with the
// first word in the lowest bits.
func rotations(group uint64) uint64 {
	product := group * rotationMultiplier
	return product ^ product>>32
}

// Add adds the prefix of a permuted fingerprint.
func (f *Prefix) Add(permuted uint64) {
	group, low := f.split(permuted)
	defer runtime.KeepAlive(f)
	if f.form == filterBits {
		setBits(&f.lines[group>>3][group&7], 1<<low)
		return
	}
	l, by := &f.lines[f.chooser.lineOf(group)], rotations(group)
	for j := range l {
		setBits(&l[j], bits.RotateLeft64(1<<low, int(by>>(6*j))))
	}
}

// setBits sets bits of a word. It avoids the locked write if the bits are set already.
func setBits(word *uint64, mask uint64) {
	if atomic.LoadUint64(word)&mask != mask {
		atomic.OrUint64(word, mask)
	}
}

// addAhead is the number of fingerprints whose lines AddAll prefetches together.
const addAhead = 32

// AddAll adds several fingerprints. It is faster than Add, since it prefetches their cache lines
// together. For sorted fingerprints, it is faster still.
func (f *Prefix) AddAll(permuted []uint64) {
	for batch := range slices.Chunk(permuted, addAhead) {
		f.prefetch(batch)
		for _, fp := range batch {
			f.Add(fp)
		}
	}
}

// prefetch begins to load the cache lines of fingerprints.
func (f *Prefix) prefetch(permuted []uint64) {
	for _, fp := range permuted {
		group, _ := f.split(fp)
		line := group >> 3
		if f.form == filterBlocked {
			line = f.chooser.lineOf(group)
		}
		prefetch.Bytes(unsafe.Pointer(&f.lines[line]), lineBytes)
	}
}

// MayContain reports whether a fingerprint with the same prefix may have been added.
func (f *Prefix) MayContain(permuted uint64) bool {
	group, low := f.split(permuted)
	return f.members(group, 1<<low) != 0
}

// members returns the subset of the wanted prefixes of a group that may have been added. Bit i
// stands for the prefix with the low bits i.
func (f *Prefix) members(group, wanted uint64) (members uint64) {
	if f.form == filterBits {
		members = wanted & atomic.LoadUint64(&f.lines[group>>3][group&7])
	} else {
		members = f.lines[f.chooser.lineOf(group)].members(rotations(group), wanted)
	}
	runtime.KeepAlive(f)
	return members
}

// members returns the subset of the wanted prefixes of a group that the line may have.
func (l *line) members(by, wanted uint64) uint64 {
	wanted &= bits.RotateLeft64(atomic.LoadUint64(&l[0]), -int(by))
	wanted &= bits.RotateLeft64(atomic.LoadUint64(&l[1]), -int(by>>6))
	wanted &= bits.RotateLeft64(atomic.LoadUint64(&l[2]), -int(by>>12))
	wanted &= bits.RotateLeft64(atomic.LoadUint64(&l[3]), -int(by>>18))
	if wanted == 0 {
		return 0
	}
	wanted &= bits.RotateLeft64(atomic.LoadUint64(&l[4]), -int(by>>24))
	wanted &= bits.RotateLeft64(atomic.LoadUint64(&l[5]), -int(by>>30))
	wanted &= bits.RotateLeft64(atomic.LoadUint64(&l[6]), -int(by>>36))
	return wanted & bits.RotateLeft64(atomic.LoadUint64(&l[7]), -int(by>>42))
}
