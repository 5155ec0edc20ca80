package filter

import (
	"math/bits"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/neardup/neardup/internal/offheap"
)

// multiIndex holds fingerprints in memory for being searched by Hamming distance: a
// multi-index hash (Norouzi, Punjani and Fleet, "Fast Search in Hamming Space with
// Multi-Index Hashing", 2012). There is a table for each of four blocks of 16 bits, and
// a bucket for each value of the block. Of two fingerprints within k bits one block
// differs in k/4 bits at most, so a search looks at the buckets within that radius
// in every table.
//
// What is live is searched here, since each seek in Pebble takes as long as some thousand
// comparisons, and more the more files there are. Its methods may be called from any goroutine.
type multiIndex struct {
	limit int64 // of bytes; what would take more is given up, all of it

	mu     sync.RWMutex
	few    []uint64 // all, until there are more than maxFew
	tables *[hashBlocks][1 << hashBits][]uint64
	size   int64 // bytes
	full   bool  // it was given up
}

const (
	// maxDistance is the largest k of a search.
	maxDistance = 16

	hashBlocks = 4
	hashBits   = 64 / hashBlocks
	// maxFew fingerprints are compared one by one, which is as fast as a search.
	maxFew = 4096

	hashTablesBytes = hashBlocks << hashBits * 24 // of the empty tables

	// maxCompared is how many more fingerprints than in four times as many evenly filled buckets a search compares. Where nearly all share
	// a block, the tables of the plan have fewer candidates.
	maxCompared = 64 << 10
)

// newMultiIndex returns an empty one that takes at most so many bytes.
func newMultiIndex(limit int64) *multiIndex { return &multiIndex{limit: limit} }

// Add adds fingerprints. What is there is not added again.
func (h *multiIndex) Add(fps []uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, fp := range fps {
		if !h.full && !h.has(fp) {
			h.insert(fp)
		}
	}
}

// hasRoom reports whether so many fingerprints can be filled in.
func (h *multiIndex) hasRoom(n int64) bool {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return !h.full && n <= (h.limit-hashTablesBytes)/(8*hashBlocks)
}

// Fill adds fingerprints, all different, to an empty one: as Add does, in less time and memory.
func (h *multiIndex) Fill(fps []uint64) {
	h.mu.Lock()
	empty := !h.full && h.tables == nil && len(h.few) == 0
	if empty && len(fps) > maxFew {
		h.fill(fps)
	}
	h.mu.Unlock()
	if !empty || len(fps) <= maxFew {
		h.Add(fps)
	}
}

// fill sorts the fingerprints into the buckets of each table, which lie one behind the other.
func (h *multiIndex) fill(fps []uint64) {
	all, free := offheap.Make[uint64](hashBlocks * len(fps))
	runtime.AddCleanup(h, func(free func()) { free() }, free)
	h.tables = new([hashBlocks][1 << hashBits][]uint64)
	for i := range h.tables {
		var sizes [1 << hashBits]uint32
		for _, fp := range fps {
			sizes[hashBlock(fp, i)]++
		}
		for b, size := range sizes {
			h.tables[i][b], all = all[:0:size], all[size:]
		}
		for _, fp := range fps {
			b := &h.tables[i][hashBlock(fp, i)]
			*b = append(*b, fp)
		}
	}
	h.size = hashTablesBytes + 8*hashBlocks*int64(len(fps))
	h.keepWithin()
}

func (h *multiIndex) insert(fp uint64) {
	switch {
	case h.tables != nil:
		h.insertInto(fp)
	case len(h.few) < maxFew:
		h.few = append(h.few, fp)
		h.size += 8
	default:
		h.tables, h.size = new([hashBlocks][1 << hashBits][]uint64), hashTablesBytes
		for _, early := range append(h.few, fp) {
			h.insertInto(early)
		}
		h.few = nil
	}
	h.keepWithin()
}

// Limit sets how many bytes it may take from now on.
func (h *multiIndex) Limit(bytes int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.limit = bytes
	h.keepWithin()
}

func (h *multiIndex) keepWithin() {
	if h.size > h.limit {
		h.tables, h.few, h.size, h.full = nil, nil, 0, true
	}
}

func (h *multiIndex) insertInto(fp uint64) {
	for i := range h.tables {
		b := &h.tables[i][hashBlock(fp, i)]
		if len(*b) == cap(*b) {
			more := 4 + len(*b)/4
			h.size += 8 * int64(more)
			*b = append(make([]uint64, 0, len(*b)+more), *b...)
		}
		*b = append(*b, fp)
	}
}

// hashBlock returns the i-th block of a fingerprint, which is its bucket in table i.
func hashBlock(fp uint64, i int) uint16 { return uint16(fp >> (i * hashBits)) }

// has looks in the smallest of the buckets: copies of a block that many share lie in
// one.
func (h *multiIndex) has(fp uint64) bool {
	if h.tables == nil {
		return slices.Contains(h.few, fp)
	}
	least := h.tables[0][hashBlock(fp, 0)]
	for i := 1; i < hashBlocks; i++ {
		if b := h.tables[i][hashBlock(fp, i)]; len(b) < len(least) {
			least = b
		}
	}
	return slices.Contains(least, fp)
}

// MayContain reports whether a fingerprint was added, or may have been.
func (h *multiIndex) MayContain(fp uint64) bool {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.full || h.has(fp)
}

// AppendNear appends what was added within k bits of a fingerprint, each once, in no
// order. It is false where there was too much to be held, or to be compared.
func (h *multiIndex) AppendNear(dst []uint64, fp uint64, k int) ([]uint64, bool) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	switch {
	case h.full:
		return dst, false
	case h.tables == nil:
		for _, other := range h.few {
			if bits.OnesCount64(other^fp) <= k {
				dst = append(dst, other)
			}
		}
		return dst, true
	}
	near, flips := dst, hashFlips[k/hashBlocks]
	some := buckets{left: maxCompared + h.size/2*int64(len(flips))>>hashBits}
	for i := range h.tables {
		table, block := &h.tables[i], hashBlock(fp, i)
		for _, f := range flips {
			if some.n == len(some.of) {
				near = some.appendNear(near, fp, k)
			}
			some.of[some.n], some.table[some.n] = table[block^f], uint8(i)
			some.n++
		}
	}
	if near = some.appendNear(near, fp, k); some.left < 0 {
		return dst, false
	}
	return near, true
}

// buckets are what a search fetches together, so that waiting for one overlaps with waiting for
// the others.
type buckets struct {
	of    [32][]uint64
	table [32]uint8
	n     int
	left  int64 // how many more fingerprints may be compared; below 0: it was given up
}

// appendNear appends what is near in the buckets, each from the first table that has it, and empties them.
func (s *buckets) appendNear(dst []uint64, fp uint64, k int) []uint64 {
	for _, b := range s.of[:s.n] {
		if s.left -= int64(len(b)); len(b) > 0 {
			atomic.LoadUint64(&b[0]) // for the cache: nothing waits for it
		}
	}
	if s.left < 0 {
		s.n = 0
		return dst
	}
	for i, b := range s.of[:s.n] {
		for _, other := range b {
			if bits.OnesCount64(other^fp) <= k && !foundBefore(int(s.table[i]), other^fp, k) {
				dst = append(dst, other)
			}
		}
	}
	s.n = 0
	return dst
}

// foundBefore reports whether a table before the i-th finds what differs in these bits.
func foundBefore(i int, differ uint64, k int) bool {
	for j := range i {
		if bits.OnesCount16(hashBlock(differ, j)) <= k/hashBlocks {
			return true
		}
	}
	return false
}

// Bytes returns the memory that it takes.
func (h *multiIndex) Bytes() int64 {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.size
}

// hashFlips has, for each radius, the flips of a block within it.
var hashFlips = func() (flips [maxDistance/hashBlocks + 1][]uint16) {
	for r := range flips {
		for f := range 1 << hashBits {
			if bits.OnesCount16(uint16(f)) <= r {
				flips[r] = append(flips[r], uint16(f))
			}
		}
	}
	return flips
}()
