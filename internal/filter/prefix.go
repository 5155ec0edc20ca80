// Package filter says in memory what need not be looked for on disk. A Prefix says whether a
// table may hold a fingerprint with some prefix, a multiIndex which fingerprints are near to one,
// and a Set is the filters of all tables of a plan, which are loaded and grow.
//
// It guarantees that what was added is found again, by whoever asks after it was, from
// any goroutine, also while a Set loads or grows; what was not added may be found as well by
// a Prefix, and never by a multiIndex. No filter takes more memory than its budget.
package filter

import (
	"math"
	"math/bits"
	"runtime"
	"slices"
	"sync/atomic"

	"github.com/neardup/neardup/internal/offheap"
)

// Prefix tells in memory whether a table may hold a fingerprint with some
// prefix, the top bits of the permuted fingerprint. What was added is always
// found again; a filter that holds more than it was made for only gets less
// selective. All methods take the permuted fingerprint whole and look at its
// prefix alone.
//
// Its methods may be called from any goroutine. A look-up finds every fingerprint
// whose Add happened before it, so a commit adds before it becomes visible.
//
// Where all 2^prefix bits are cheap they are held as they are, and an answer is
// exact. Else the filter is a blocked Bloom filter (Putze, Sanders and Singler,
// "Cache-, Hash- and Space-Efficient Bloom Filters", 2007) made for asking after
// a whole neighbourhood. A line of eight 64-bit words is picked by the prefix
// without its low lineBits bits, and in each word one bit: the lowest six bits of
// the prefix, rotated by a number that depends on the word and on all other bits.
// So rotating the words back and taking their AND answers at once for the 64
// prefixes that differ in the lowest six bits only.
type Prefix struct {
	prefix   int
	form     filterForm
	lineBits int // of the prefix, how many low ones do not change the line
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
	GroupBits = 6 // prefixes that differ only in these low bits are answered by one word

	// maxLineBits bounds how many neighbours share a line, and so what a dense
	// spot of the data can fill. minGroups makes the lines fill evenly: so many
	// groups of neighbours fall on each line.
	maxLineBits = 11
	minGroups   = 4

	// bitsPerFingerprint is what a blocked filter takes when the budget allows.
	bitsPerFingerprint = 20
	// A bit array is taken at up to this many bits for each expected fingerprint
	// or, below smallArray bytes, whatever is expected.
	maxArrayBits = 32
	smallArray   = 1 << 20
)

// New returns an empty filter for a table whose prefix has that many bits, 1 to 64, and
// which is expected to hold so many fingerprints. It takes at most budget bytes: the bit
// array where that is small for what is expected, else 20 bits for each fingerprint, or as
// many as fit. It is nil where no filter is of use: with a budget below 64 bytes, and where
// nearly every prefix has a fingerprint.
func New(prefix int, expected, budget int64) *Prefix {
	if !ofUse(prefix, expected, budget) {
		return nil
	}
	return fit(prefix, expected, budget)
}

// ofUse reports whether New returns a filter, without making it.
func ofUse(prefix int, expected, budget int64) bool {
	return (prefix >= 62 || expected <= 2<<prefix) && budget >= lineBytes
}

// fit is New also where nearly every prefix has a fingerprint.
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

// layout returns the form that a filter takes, and its lines.
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

// Size returns the bytes of a filter as New makes it, and the probability that it says
// yes to a prefix that no fingerprint has.
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

// lineFull returns the probability that all eight words of a line have some bit set,
// where the number of fingerprints in the line is Poisson-distributed: of j words
// that many given bits stay free with exp(-mean (1 - (63/64)^j)).
func lineFull(mean float64) float64 {
	sum, choose := 0.0, 1.0
	for j := range len(line{}) + 1 {
		sum += choose * math.Exp(-mean*(1-math.Pow(63./64, float64(j))))
		choose *= -float64(len(line{})-j) / float64(j+1)
	}
	return min(max(sum, 0), 1)
}

// leastOffHeap is how large lines are that are kept from the garbage collector. They go with their
// filter, so whoever looks at them keeps it alive for as long.
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

// arrayLines returns the lines of a bit array, if it can be counted.
func arrayLines(prefix int) (n int64, ok bool) {
	return 1 << max(prefix-9, 0), prefix < 64
}

// lineBitsFor returns the number of low prefix bits that stay in a line.
func lineBitsFor(prefix int, lines int64) int {
	groups := bits.Len64(uint64(lines)*minGroups - 1) // 2^groups are enough
	return max(GroupBits, min(maxLineBits, prefix-groups))
}

// Bytes returns the memory that the filter takes.
func (f *Prefix) Bytes() int64 { return int64(len(f.lines)) * lineBytes }

// exact reports that the filter is a bit array, which says yes to what was added only.
func (f *Prefix) exact() bool { return f.form == filterBits }

// split returns the number of the group of 64 prefixes and the place in it.
func (f *Prefix) split(permuted uint64) (group uint64, low int) {
	p := permuted >> ((64 - f.prefix) & 63)
	return p >> GroupBits, int(p & 63)
}

// Odd multipliers: 2^64 over the golden ratio, and a prime of xxHash64.
const (
	lineMultiplier     = 0x9e3779b97f4a7c15
	rotationMultiplier = 0xc2b2ae3d27d4eb4f
)

// chooser picks the line of a group in a blocked filter.
type chooser struct {
	drop  int // low bits of a group that do not count
	up    int // by how much to shift the product, for its top bit to be bit 63
	lines uint64
}

func newChooser(prefix, lineBits, lines int) chooser {
	return chooser{lineBits - GroupBits, 64 - prefix + lineBits, uint64(lines)}
}

// lineOf returns the line of a group. The product is taken modulo a power of two,
// the number of different inputs, so it permutes them, and every line gets the
// same number of them but for one.
func (c chooser) lineOf(group uint64) uint64 {
	product := group >> (c.drop & 63) * lineMultiplier << (c.up & 63)
	at, _ := bits.Mul64(product, c.lines)
	return at
}

// rotations returns by how much each word of its line is rotated for a group: six
// bits a word, those of the first word lowest.
func rotations(group uint64) uint64 {
	product := group * rotationMultiplier
	return product ^ product>>32
}

// Add makes the filter answer yes for the prefix of a permuted fingerprint.
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

// setBits spares the word a locked write when the bits are set already.
func setBits(word *uint64, mask uint64) {
	if atomic.LoadUint64(word)&mask != mask {
		atomic.OrUint64(word, mask)
	}
}

// addAhead is the number of fingerprints whose lines AddAll fetches together.
const addAhead = 32

// AddAll adds many, faster than one by one: the cache lines that they need are
// fetched together. Sorted ones are faster still.
func (f *Prefix) AddAll(permuted []uint64) {
	for batch := range slices.Chunk(permuted, addAhead) {
		f.fetch(batch)
		for _, fp := range batch {
			f.Add(fp)
		}
	}
}

// fetch asks for the cache lines of some fingerprints. Nothing waits for them.
func (f *Prefix) fetch(permuted []uint64) {
	defer runtime.KeepAlive(f)
	for _, fp := range permuted {
		group, _ := f.split(fp)
		if f.form == filterBits {
			atomic.LoadUint64(&f.lines[group>>3][group&7])
		} else {
			atomic.LoadUint64(&f.lines[f.chooser.lineOf(group)][0])
		}
	}
}

// MayContain reports whether a fingerprint with the prefix of the given one may
// have been added.
func (f *Prefix) MayContain(permuted uint64) bool {
	group, low := f.split(permuted)
	return f.members(group, 1<<low) != 0
}

// members returns those of the wanted prefixes of a group that may be there, as
// bits: bit i is the one with the low bits i.
func (f *Prefix) members(group, wanted uint64) (members uint64) {
	if f.form == filterBits {
		members = wanted & atomic.LoadUint64(&f.lines[group>>3][group&7])
	} else {
		members = f.lines[f.chooser.lineOf(group)].members(rotations(group), wanted)
	}
	runtime.KeepAlive(f)
	return members
}

// members returns those of the wanted prefixes of a group that the line may hold.
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
