package filter

import (
	"math/bits"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

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
// comparisons, and more the more files there are. Its methods may be called from any goroutine. Those that
// search take no lock: whoever waited for one would then wait for a processor, behind all who write.
type multiIndex struct {
	mu    sync.Mutex // held to add
	limit int64      // of bytes; what would take more is given up, all of it

	few    bucket // all, until there are more than maxFew
	tables atomic.Pointer[hashTables]
	size   atomic.Int64 // bytes
	full   atomic.Bool  // it was given up: set before anything is taken away
}

type hashTables [hashBlocks][1 << hashBits]bucket

// bucket is a list of fingerprints that only grows.
type bucket struct {
	n     atomic.Uint32 // those in use; changed last, and read first
	room  uint32        // of the writer
	first atomic.Pointer[uint64]
}

// fingerprints returns those of a moment, which nobody changes.
func (b *bucket) fingerprints() []uint64 {
	n := b.n.Load()
	if first := b.first.Load(); first != nil {
		return unsafe.Slice(first, n)
	}
	return nil
}

// add is for one goroutine at a time. It returns how many more bytes the bucket takes.
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

// use gives the bucket other memory, which begins with what it has.
func (b *bucket) use(all []uint64) {
	b.room = uint32(len(all))
	b.first.Store(unsafe.SliceData(all))
}

const (
	// maxDistance is the largest k of a search.
	maxDistance = 16

	hashBlocks = 4
	hashBits   = 64 / hashBlocks
	// maxFew fingerprints are compared one by one, which is as fast as a search.
	maxFew = 4096

	hashTablesBytes = int64(unsafe.Sizeof(hashTables{})) // of the empty tables

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
		if tables, few, known := h.now(); known && !has(tables, few, fp) {
			h.insert(tables, fp)
		}
	}
}

// now returns what was added: in tables, or the few that there are. It is false where it was given up.
func (h *multiIndex) now() (tables *hashTables, few []uint64, known bool) {
	if tables = h.tables.Load(); tables == nil {
		few = h.few.fingerprints()
	}
	return tables, few, !h.full.Load() // last: until it was, what was seen is all
}

// room returns how many fingerprints can be filled in.
func (h *multiIndex) room() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.full.Load() {
		return 0
	}
	return max(0, h.limit-hashTablesBytes) / (8 * hashBlocks)
}

// Fill adds fingerprints, all different, to one that has none or few: as Add does, in less time and memory. Others may add meanwhile.
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

// filledTables sorts fingerprints into the buckets of each table, which lie one behind the other.
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

// fill sorts fingerprints into the buckets of table i, which lie in the given room.
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
		for _, early := range h.few.fingerprints() { // who has not seen the tables looks there
			more += tables.add(early)
		}
		h.tables.Store(tables)
		h.size.Add(more)
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
	if h.size.Load() > h.limit {
		h.full.Store(true)
		h.tables.Store(nil)
		h.few.first.Store(nil)
		h.size.Store(0)
	}
}

// add returns how many more bytes the buckets take.
func (t *hashTables) add(fp uint64) (more int64) {
	for i := range t {
		more += t[i][hashBlock(fp, i)].add(fp)
	}
	return more
}

// hashBlock returns the i-th block of a fingerprint, which is its bucket in table i.
func hashBlock(fp uint64, i int) uint16 { return uint16(fp >> (i * hashBits)) }

// has looks in the smallest of the buckets: copies of a block that many share lie in
// one.
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

// MayContain reports whether a fingerprint was added, or may have been.
func (h *multiIndex) MayContain(fp uint64) bool {
	tables, few, known := h.now()
	defer runtime.KeepAlive(tables)
	return !known || has(tables, few, fp)
}

// AppendNear appends what was added within k bits of a fingerprint, each once, in no
// order. It is false where there was too much to be held, or to be compared.
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
			some.size[some.n], some.first[some.n], some.table[some.n] = b.n.Load(), b.first.Load(), uint8(i)
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
	size  [32]uint32
	first [32]*uint64
	table [32]uint8
	n     int
	left  int64 // how many more fingerprints may be compared; below 0: it was given up
}

// appendNear appends what is near in the buckets, each from the first table that has it, and empties them.
func (s *buckets) appendNear(dst []uint64, fp uint64, k int) []uint64 {
	for i, first := range s.first[:s.n] {
		if s.left -= int64(s.size[i]); s.left < 0 {
			s.n = 0
			return dst
		}
		fetch(unsafe.Slice(first, s.size[i]))
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

// fetch asks for the cache lines of fingerprints. Nothing waits for them.
func fetch(fps []uint64) {
	for i := 0; i < len(fps); i += 8 {
		atomic.LoadUint64(&fps[i])
	}
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
func (h *multiIndex) Bytes() int64 { return h.size.Load() }

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
