package filter

import (
	"math/bits"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/neardup/neardup/internal/offheap"
	"github.com/neardup/neardup/internal/prefetch"
)

// multiIndex searches fingerprints in memory by Hamming distance. It is a multi-index hash
// (Norouzi, Punjani and Fleet, "Fast Search in Hamming Space with Multi-Index Hashing", 2012). It
// has a table for each of the four 16-bit blocks of a fingerprint. Each table has a bucket for each
// value of its block. If two fingerprints are within k bits, at least one of their blocks differs
// in at most k/4 bits. A search therefore reads the buckets within this radius in every table.
//
// Live entries are searched in a multiIndex, since a seek in Pebble takes as long as about a
// thousand comparisons. A multiIndex is safe for concurrent use. Searches take no lock: a reader
// that waits for a lock would also wait until all writers have had the processor.
type multiIndex struct {
	mu    sync.Mutex // held by writers
	limit int64      // bytes; if more are needed, all fingerprints are discarded

	few    bucket // all fingerprints, until there are more than maxFew
	tables atomic.Pointer[hashTables]
	size   atomic.Int64 // bytes
	full   atomic.Bool  // the fingerprints are discarded; set before they are removed
}

type hashTables [hashBlocks][1 << hashBits]bucket

// bucket is a list of fingerprints that only grows.
type bucket struct {
	n     atomic.Uint32 // the number of fingerprints; written last and read first
	room  uint32        // the capacity; only the writer uses it
	first atomic.Pointer[uint64]
}

// fingerprints returns the current fingerprints. They are immutable.
func (b *bucket) fingerprints() []uint64 {
	n := b.n.Load()
	if first := b.first.Load(); first != nil {
		return unsafe.Slice(first, n)
	}
	return nil
}

// add adds a fingerprint, and returns the number of bytes by which the bucket grew. It is not safe
// for concurrent use.
func (b *bucket) add(fp uint64) (more int64) {
	n := b.n.Load()
	if n == b.room {
		all := make([]uint64, n+4+n/4)
		copy(all, b.fingerprints())
		more = 8 * int64(len(all)-int(n))
		b.use(all)
	}
	unsafe.Slice(b.first.Load(), b.room)[n] = fp
	b.n.Store(n + 1)
	return more
}

// use replaces the memory of the bucket. all must begin with the fingerprints of the bucket.
func (b *bucket) use(all []uint64) {
	b.room = uint32(len(all))
	b.first.Store(unsafe.SliceData(all))
}

const (
	// maxDistance is the largest k of a search.
	maxDistance = 16

	hashBlocks = 4
	hashBits   = 64 / hashBlocks
	// Up to maxFew fingerprints are compared one by one, which is as fast as a search.
	maxFew = 4096

	hashTablesBytes = int64(unsafe.Sizeof(hashTables{})) // empty tables

	// A search compares at most four times as many fingerprints as evenly filled buckets have, plus
	// maxCompared. If nearly all fingerprints have an equal block, the tables of the plan have
	// fewer candidates.
	maxCompared = 64 << 10
)

// newMultiIndex returns an empty multiIndex of at most limit bytes.
func newMultiIndex(limit int64) *multiIndex { return &multiIndex{limit: limit} }

// Add adds the fingerprints that the index does not have yet.
func (h *multiIndex) Add(fps []uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, fp := range fps {
		if tables, few, known := h.now(); known && !has(tables, few, fp) {
			h.insert(tables, fp)
		}
	}
}

// now returns the fingerprints, either in tables or in few. known is false if they are discarded.
func (h *multiIndex) now() (tables *hashTables, few []uint64, known bool) {
	if tables = h.tables.Load(); tables == nil {
		few = h.few.fingerprints()
	}
	return tables, few, !h.full.Load() // read last: if it is false, the result is complete
}

// room returns the largest number of fingerprints that Fill can add without exceeding the limit.
func (h *multiIndex) room() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.full.Load() {
		return 0
	}
	return max(0, h.limit-hashTablesBytes) / (8 * hashBlocks)
}

// Fill adds distinct fingerprints to an index that has no or few fingerprints. It needs less time
// and memory than Add. Other goroutines may call Add at the same time.
func (h *multiIndex) Fill(fps []uint64) {
	if len(fps) <= maxFew {
		h.Add(fps)
		return
	}
	filled := filledTables(fps)
	h.mu.Lock()
	defer h.mu.Unlock()
	tables, few, known := h.now()
	if !known {
		return
	}
	size := hashTablesBytes + 8*hashBlocks*int64(len(fps))
	add := func(others []uint64) {
		for _, fp := range others {
			if !has(filled, nil, fp) {
				size += filled.add(fp)
			}
		}
	}
	add(few)
	for i := 0; tables != nil && i < len(tables[0]); i++ {
		add(tables[0][i].fingerprints())
	}
	h.tables.Store(filled)
	h.size.Store(size)
	h.keepWithin()
}

// filledTables sorts fingerprints into the buckets of each table. The buckets are contiguous.
func filledTables(fps []uint64) *hashTables {
	all, free := offheap.Make[uint64](hashBlocks * len(fps))
	tables := new(hashTables)
	runtime.AddCleanup(tables, func(free func()) { free() }, free)
	var group sync.WaitGroup
	for i := range tables {
		group.Go(func() { fill(&tables[i], i, fps, all[i*len(fps):(i+1)*len(fps)]) })
	}
	group.Wait()
	return tables
}

// fill sorts fingerprints into the buckets of table i, which use the memory in room.
func fill(table *[1 << hashBits]bucket, i int, fps, room []uint64) {
	var sizes [1 << hashBits]uint32
	for _, fp := range fps {
		sizes[hashBlock(fp, i)]++
	}
	for b, size := range sizes {
		table[b].use(room[:size:size])
		room = room[size:]
	}
	for _, fp := range fps {
		table[hashBlock(fp, i)].add(fp)
	}
}

func (h *multiIndex) insert(tables *hashTables, fp uint64) {
	switch {
	case tables != nil:
		h.size.Add(tables.add(fp))
	case h.few.n.Load() < maxFew:
		h.size.Add(h.few.add(fp))
	default:
		tables = new(hashTables)
		more := hashTablesBytes + tables.add(fp)
		// h.few remains for the readers that have not seen the tables.
		for _, early := range h.few.fingerprints() {
			more += tables.add(early)
		}
		h.tables.Store(tables)
		h.size.Add(more)
	}
	h.keepWithin()
}

// Discard discards all fingerprints, and all that are added later.
func (h *multiIndex) Discard() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.limit = -1
	h.keepWithin()
}

func (h *multiIndex) keepWithin() {
	if h.size.Load() > h.limit {
		h.full.Store(true)
		h.tables.Store(nil)
		h.few.first.Store(nil)
		h.size.Store(0)
	}
}

// add adds a fingerprint to each table, and returns the number of bytes by which the buckets grew.
func (t *hashTables) add(fp uint64) (more int64) {
	for i := range t {
		more += t[i][hashBlock(fp, i)].add(fp)
	}
	return more
}

// hashBlock returns block i of a fingerprint, which is the number of its bucket in table i.
func hashBlock(fp uint64, i int) uint16 { return uint16(fp >> (i * hashBits)) }

// has reports whether the index has a fingerprint. It searches the smallest of its buckets, since
// one of its blocks may be frequent.
func has(tables *hashTables, few []uint64, fp uint64) bool {
	if tables == nil {
		return slices.Contains(few, fp)
	}
	least := tables[0][hashBlock(fp, 0)].fingerprints()
	for i := 1; i < hashBlocks; i++ {
		if b := tables[i][hashBlock(fp, i)].fingerprints(); len(b) < len(least) {
			least = b
		}
	}
	return slices.Contains(least, fp)
}

// MayContain reports whether a fingerprint may have been added.
func (h *multiIndex) MayContain(fp uint64) bool {
	tables, few, known := h.now()
	defer runtime.KeepAlive(tables)
	return !known || has(tables, few, fp)
}

// AppendNear appends the fingerprints within k bits of fp, each once, in no particular order. It
// returns false if the fingerprints are discarded, or if the search would compare too many of them.
func (h *multiIndex) AppendNear(dst []uint64, fp uint64, k int) ([]uint64, bool) {
	tables, few, known := h.now()
	switch {
	case !known:
		return dst, false
	case tables == nil:
		for _, other := range few {
			if bits.OnesCount64(other^fp) <= k {
				dst = append(dst, other)
			}
		}
		return dst, true
	}
	defer runtime.KeepAlive(tables)
	near, flips := dst, hashFlips[k/hashBlocks]
	some := buckets{left: maxCompared + h.size.Load()/2*int64(len(flips))>>hashBits}
	for i := range tables {
		table, block := &tables[i], hashBlock(fp, i)
		for _, f := range flips {
			if some.n == len(some.first) {
				near = some.appendNear(near, fp, k)
			}
			b := &table[block^f]
			some.size[some.n], some.first[some.n], some.table[some.n] = b.n.Load(),
				b.first.Load(), uint8(i)
			some.n++
		}
	}
	if near = some.appendNear(near, fp, k); some.left < 0 {
		return dst, false
	}
	return near, true
}

// buckets is a group of buckets that a search prefetches together, so that the cache misses
// overlap. Bucket i is in table[i].
type buckets struct {
	size  [32]uint32
	first [32]*uint64
	table [32]uint8
	n     int
	left  int64 // the number of comparisons that remain; negative if the search gave up
}

// appendNear appends the fingerprints of the buckets within k bits of fp, and empties the group. It
// skips a fingerprint that an earlier table finds.
func (s *buckets) appendNear(dst []uint64, fp uint64, k int) []uint64 {
	for i, first := range s.first[:s.n] {
		if s.left -= int64(s.size[i]); s.left < 0 {
			s.n = 0
			return dst
		}
		prefetch.Bytes(unsafe.Pointer(first), 8*uintptr(s.size[i]))
	}
	for i, first := range s.first[:s.n] {
		for _, other := range unsafe.Slice(first, s.size[i]) {
			if bits.OnesCount64(other^fp) <= k && !foundBefore(int(s.table[i]), other^fp, k) {
				dst = append(dst, other)
			}
		}
	}
	s.n = 0
	return dst
}

// foundBefore reports whether a table before table i finds a fingerprint that differs from the
// query in these bits.
func foundBefore(i int, differ uint64, k int) bool {
	for j := range i {
		if bits.OnesCount16(hashBlock(differ, j)) <= k/hashBlocks {
			return true
		}
	}
	return false
}

// Bytes returns the memory of the index.
func (h *multiIndex) Bytes() int64 { return h.size.Load() }

// hashFlips has, for each radius, the masks with at most radius bits set.
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
