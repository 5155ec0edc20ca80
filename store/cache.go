package store

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/cockroachdb/pebble/v2"
	"github.com/neardup/neardup/internal/offheap"
)

// blockCache keeps packed blocks in memory of its own, which the garbage collector does not see. The
// slots of the directories say where. Reading a block takes no lock, but a Reading.
//
// The memory is pages that are filled one after the other, and around again. The page behind the one
// that is filled is emptied ahead: what was read since it was put there moves on, as far as there is
// room for it in half a page, and the rest goes. It is written to once nobody can have found
// a block there that was taken out. Until then nothing more is cached, so a reader that takes
// long costs time and no memory. A block that is larger than half a page is not cached.
type blockCache struct {
	readings
	limit   int64        // bytes that it may take
	holders atomic.Int64 // Tables
	spare   atomic.Bool  // a page of blocks can be cached that pushes no others out

	mu      sync.Mutex
	memory  []byte // of all pages; nil before the first block
	free    func()
	closed  bool
	page    int    // the size of one
	at      int    // where the next block goes
	end     int    // of the page that is filled
	emptied uint64 // the epoch at which the next page was
	used    []int  // of each page, the bytes that are filled
	tables  []*directory
	bytes   atomic.Int64 // of the blocks that slots say are here, with their headers
}

// A block is behind a header: its length, the number of its directory, and its slot there.
const (
	cachedHeader = 16
	cachedAlign  = 8
)

const (
	minCachePage = 4 << 10
	maxCachePage = 256 << 10
	cachePages   = 16 // there are so many at least, where they would not be too small
)

// place is where a block is: its place in memory / cachedAlign, and, in the low bit, whether it was
// read since it was put there. 0: it is not cached.
type place = atomic.Uint64

// newBlockCache returns a cache that takes at most this many bytes. It may be too few
// for any block.
func newBlockCache(limit int64) *blockCache {
	c := &blockCache{limit: limit, page: int(min(max(limit/cachePages, minCachePage), maxCachePage)) &^ (cachedAlign - 1)}
	c.readings.init()
	c.holders.Store(1)
	c.spare.Store(int64(3*c.page) <= limit)
	return c
}

// Bytes returns what the cache holds, never more than its limit.
func (c *blockCache) Bytes() int64 { return c.bytes.Load() }

// cost is what a block takes.
func cost(length int) int { return (cachedHeader + length + cachedAlign - 1) &^ (cachedAlign - 1) }

// cacheFor returns the limit of a cache that holds blocks of so many bytes in all.
func cacheFor(bytes, blocks uint64) int64 {
	const header = cachedHeader + cachedAlign
	all := int64(bytes + blocks*header)
	return all + all/128 + 3*maxCachePage // ends of pages, and the one that is emptied ahead
}

// register makes a directory one whose blocks the cache takes.
func (c *blockCache) register(d *directory) {
	c.mu.Lock()
	defer c.mu.Unlock()
	d.number = uint32(len(c.tables))
	c.tables = append(c.tables, d)
}

// block returns the block at a place, which the caller found in a slot with a reading, and marks it as
// read.
func (c *blockCache) block(slot *blockSlot, at uint64) []byte {
	if at&1 == 0 {
		slot.place.CompareAndSwap(at, at|1) // else it has gone, or moved
	}
	return c.data(at)
}

// first returns what is in front of a block.
func (c *blockCache) first(at uint64) uint64 {
	return binary.LittleEndian.Uint64(c.memory[at>>1*cachedAlign:])
}

func (c *blockCache) data(at uint64) []byte {
	begin := at >> 1 * cachedAlign
	length := uint64(binary.LittleEndian.Uint32(c.memory[begin:]))
	begin += cachedHeader
	return c.memory[begin : begin+length : begin+length]
}

// add keeps a copy of a block, unless another goroutine has done so meanwhile, or is adding one: a query that
// waited for that would wait for a processor too. With evict others make room for it; without, it is left out where there
// is no room.
func (c *blockCache) add(d *directory, slot int, block []byte, evict bool) {
	size := cost(len(block))
	if size > c.page/2 || int64(3*c.page) > c.limit {
		return
	}
	if !c.mu.TryLock() {
		return
	}
	defer c.mu.Unlock()
	if c.closed || d.slots[slot].place.Load() != 0 || !c.room(size, evict) {
		return
	}
	c.put(d, slot, block, 0)
}

// put writes a block where there is room for it.
func (c *blockCache) put(d *directory, slot int, block []byte, read uint64) {
	header := c.memory[c.at:]
	binary.LittleEndian.PutUint32(header, uint32(len(block)))
	binary.LittleEndian.PutUint32(header[4:], d.number)
	binary.LittleEndian.PutUint64(header[8:], uint64(slot))
	copy(header[cachedHeader:], block)
	d.slots[slot].place.Store(uint64(c.at)/cachedAlign<<1 | read)
	size := cost(len(block))
	page := c.at / c.page
	c.at += size
	c.used[page] = c.at - page*c.page
	c.bytes.Add(int64(size))
}

// unused reports whether nothing is in the page behind the one that is filled, and in the one that would be emptied for that.
func (c *blockCache) unused() bool {
	next := c.end / c.page % len(c.used)
	return c.used[next]+c.used[(next+1)%len(c.used)] == 0
}

// room sees to it that so many bytes, at most half a page, can be put where the next block goes.
func (c *blockCache) room(size int, evict bool) bool {
	if c.memory == nil {
		pages := int(c.limit) / c.page
		c.memory, c.free = offheap.Make[byte](pages * c.page)
		c.used = make([]int, pages)
		c.at, c.end = cachedAlign, c.page // 0 is no place
	}
	if c.at+size <= c.end {
		return true
	}
	if !evict && !c.unused() || c.oldest() < c.emptied {
		return false
	}
	next := c.end / c.page % len(c.used)
	behind := (next + 1) % len(c.used)
	c.at, c.end = next*c.page, (next+1)*c.page
	if next == 0 {
		c.at = cachedAlign
	}
	c.used[next] = 0
	c.empty(behind)
	c.spare.Store(c.unused())
	return true
}

// empty takes the blocks of a page out of their slots. Those that were read move to the page that is
// filled, which is empty, but to no more than half of it.
func (c *blockCache) empty(page int) {
	at, end := page*c.page, page*c.page+c.used[page]
	if page == 0 {
		at = cachedAlign
	}
	if at >= end {
		return
	}
	half := c.end - c.page/2
	for at < end {
		header := c.memory[at:]
		length := int(binary.LittleEndian.Uint32(header))
		d, slot := c.tables[binary.LittleEndian.Uint32(header[4:])], int(binary.LittleEndian.Uint64(header[8:]))
		place := &d.slots[slot].place
		if old := place.Load(); old>>1 == uint64(at)/cachedAlign {
			read := place.Swap(0)&1 != 0
			c.bytes.Add(-int64(cost(length)))
			if read && c.at+cost(length) <= half {
				c.put(d, slot, header[cachedHeader:cachedHeader+length], 0)
			}
		}
		at += cost(length)
	}
	c.emptied = c.readings.next()
}

// release lets go of the cache and of its directories; the last holder closes it.
func (c *blockCache) release() {
	if c.holders.Add(-1) > 0 {
		return
	}
	c.close()
	for _, d := range c.tables {
		d.free()
	}
}

// close gives the memory back, once nobody reads a block. What is asked for after that is not
// cached.
func (c *blockCache) close() {
	free := c.empties()
	if free == nil {
		return
	}
	// Without the lock: who reads may be about to add.
	c.wait(c.readings.next())
	free()
	c.memory = nil // nobody looks at it any more
}

// empties takes all blocks out of their slots for good, and returns what gives the memory back, once.
func (c *blockCache) empties() (free func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.spare.Store(false)
	for _, d := range c.tables {
		for i := range d.slots {
			d.slots[i].place.Store(0)
		}
	}
	c.bytes.Store(0)
	free, c.free = c.free, nil
	return free
}

// readings are of a cache: who reads blocks of it, so that memory is not written to again while
// someone may look at it. What is taken out of all slots before an epoch begins is nobody's once all
// readings are of that epoch or of later ones.
type readings struct {
	epoch atomic.Uint64 // even
	all   atomic.Pointer[[]*Reading]
	mu    sync.Mutex // held to add some
}

// Reading keeps what PackedTable.Block gives as it is, until Done.
type Reading struct {
	of    *readings
	since atomic.Uint64 // the epoch that it began in, and 1; 0: free
	_     [112]byte     // others are in other cache lines
}

func (r *readings) init() {
	r.epoch.Store(2)
	r.all.Store(new([]*Reading))
}

// begin begins a reading: the one that the caller had last, if that is free.
func (r *readings) begin(last *Reading) *Reading {
	if last != nil && last.of == r && last.take() {
		return last
	}
	for {
		all := *r.all.Load()
		for _, reading := range all {
			if reading.take() {
				return reading
			}
		}
		r.mu.Lock()
		if more := *r.all.Load(); len(more) == len(all) {
			more = append(more[:len(more):len(more)], &Reading{of: r}, &Reading{of: r})
			r.all.Store(&more)
		}
		r.mu.Unlock()
	}
}

// take takes the reading if it is free. Whoever saw it free after that had emptied the slots before
// any is looked at.
func (r *Reading) take() bool {
	return r.since.Load() == 0 && r.since.CompareAndSwap(0, r.of.epoch.Load()|1)
}

// Done lets go of all blocks that were had.
func (r *Reading) Done() { r.since.Store(0) }

// next begins an epoch and returns it: what begins from now on does not find what was taken out
// of the slots before.
func (r *readings) next() uint64 { return r.epoch.Add(2) }

// oldest returns the epoch of the oldest reading.
func (r *readings) oldest() uint64 {
	oldest := uint64(math.MaxUint64)
	for _, reading := range *r.all.Load() {
		if since := reading.since.Load(); since != 0 {
			oldest = min(oldest, since)
		}
	}
	return oldest
}

// wait returns once all readings are of an epoch or later ones.
func (r *readings) wait(epoch uint64) {
	for pause := time.Microsecond; r.oldest() < epoch; pause = min(2*pause, time.Millisecond) {
		time.Sleep(pause)
	}
}

// Memory for caches where Options do not say how much: what is packed is kept whole, in half of
// the machine's memory at most, and Pebble gets little beside it while nobody writes, as queries read few records. A small
// index has room for all its records and keys. Whoever writes looks up keys and records of any age, so Pebble has more then, and where
// nothing is packed.
const (
	maxPebbleBytes  = 512 << 20
	pebbleShare     = 8         // of the machine's memory
	leastCacheBytes = 128 << 20 // of packed blocks and of Pebble's
	besidePacked    = 4 << 20   // of Pebble's, and a 16th of the packed blocks, for the indexes of its files
)

// pebbleCacheBytes returns what Pebble's cache may have at most.
func pebbleCacheBytes(total int64) int64 {
	if total > 0 {
		return total
	}
	return min(maxPebbleBytes, MachineMemory()/pebbleShare)
}

// writeBytes returns what Pebble's cache has on top for the memtables that it takes off: those of an index
// that nobody writes to take nothing, and where the caller gave a bound they are within it. One is written to,
// one flushed or kept to be used again, and an iterator may hold a third.
func writeBytes(total int64) int64 {
	if total > 0 {
		return 0
	}
	return 3 * int64(memTableBytes(pebbleCacheBytes(0)))
}

// pebbleCache is how much Pebble's cache may hold. It is safe for concurrent use.
type pebbleCache struct {
	cache   *pebble.Cache
	total   int64 // for caches; 0: the default
	written atomic.Bool

	mu        sync.Mutex
	replayed  bool   // there are memtables, though nothing was written yet
	beside    int64  // what packed blocks leave
	unreserve func() // takes back the last reservation
}

func newPebbleCache(cache *pebble.Cache, total int64) *pebbleCache {
	c := &pebbleCache{cache: cache, total: total, beside: pebbleCacheBytes(total)}
	c.reserve()
	return c
}

// may is how many bytes the cache may hold now.
func (c *pebbleCache) may() int64 {
	switch {
	case c.total == 0 && c.written.Load():
		return c.cache.MaxSize()
	case c.replayed:
		return c.beside + writeBytes(c.total)
	}
	return c.beside
}

// reserve keeps from Pebble what it may not have. The lock must be held.
func (c *pebbleCache) reserve() {
	if c.unreserve != nil {
		c.unreserve()
	}
	c.unreserve = c.cache.Reserve(int(c.cache.MaxSize() - c.may()))
}

// packed says what packed blocks leave.
func (c *pebbleCache) packed(beside int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.beside = beside
	c.reserve()
}

// replays is called where a log was replayed.
func (c *pebbleCache) replays() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.replayed = true
	c.reserve()
}

// writes is called before each write.
func (c *pebbleCache) writes() {
	if c.written.Load() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.written.Store(true)
	c.reserve()
}

func (c *pebbleCache) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unreserve()
}

// packedCacheBytes divides the memory for caches, 0 for the default: what packed blocks take with all
// that belongs to them, as far as a quarter is left to Pebble, and the rest.
func packedCacheBytes(tables []PackedTableInfo, total int64) (packed, pebble int64) {
	if packed = wantedCacheBytes(tables); total > 0 {
		packed = min(packed, total/4*3)
		return packed, total - packed
	}
	if packed == 0 {
		return 0, pebbleCacheBytes(0)
	}
	packed = min(packed, MachineMemory()/2)
	return packed, min(max(besidePacked+packed/16, leastCacheBytes-packed), pebbleCacheBytes(0))
}

// wantedCacheBytes returns what a cache takes that holds all packed blocks.
func wantedCacheBytes(tables []PackedTableInfo) int64 {
	var bytes, blocks uint64
	for _, t := range tables {
		bytes, blocks = bytes+t.Bytes, blocks+t.Blocks
	}
	if blocks == 0 {
		return 0
	}
	return cacheFor(bytes, blocks)
}

// CacheShort says what is wrong where the cache is too small for the packed blocks, and "" where it
// holds them all.
func (t *Tables) CacheShort() string {
	wanted := wantedCacheBytes(t.packing.tables)
	if t.cache == nil || t.cache.limit >= wanted {
		return ""
	}
	const mib = 1 << 20
	return fmt.Sprintf("the cache holds %d of %d MiB of packed blocks, so queries read files: a cache of %d MiB would hold them all",
		t.cache.limit/mib, wanted/mib, (wanted/3*4+mib-1)/mib)
}

// MachineMemory returns the memory of the machine, or what its cgroups allow this process of it; without
// bound where the system does not tell.
func MachineMemory() int64 {
	memory := uint64(math.MaxInt64)
	for _, bound := range []memlimit.Provider{memlimit.FromSystem, memlimit.FromCgroup} {
		if n, err := bound(); err == nil && n > 0 {
			memory = min(memory, n)
		}
	}
	return int64(memory)
}
