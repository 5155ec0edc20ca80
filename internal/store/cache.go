package store

import (
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"
)

// cachedBlock is the header of an allocation that holds the bytes of a block right
// behind it: a probe that finds the one has the beginning of the other in the same
// cache line. It has no pointers, so the garbage collector does not look inside.
type cachedBlock struct {
	length     uint32 // of the block
	allocated  uint32
	referenced atomic.Uint32 // 1 if it was read since the clock hand passed
	_          uint32
}

const cachedBlockHeader = int(unsafe.Sizeof(cachedBlock{}))

// maxCachedBlock is far above what a posting of all documents takes, and leaves room
// for the header.
const maxCachedBlock = 1 << 30

// newCachedBlock copies a block of at most maxCachedBlock bytes.
func newCachedBlock(block []byte) *cachedBlock {
	// Words, so that the header is aligned; a byte more than needed at least, so that
	// no pointer is behind the allocation. Grow takes all of what the allocator gives
	// for this size.
	words := slices.Grow([]uint64(nil), (cachedBlockHeader+len(block))/8+1)
	words = words[:cap(words)]
	c := (*cachedBlock)(unsafe.Pointer(unsafe.SliceData(words)))
	c.length, c.allocated = uint32(len(block)), uint32(len(words)*8)
	copy(c.data(), block)
	return c
}

// data returns the bytes of the block, which no one may change.
func (c *cachedBlock) data() []byte {
	return unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(c), cachedBlockHeader)), c.length)
}

// touch keeps the block for another round of the clock. It writes once a round only,
// so that goroutines that read the same block do not take the line from each other.
func (c *cachedBlock) touch() {
	if c.referenced.Load() == 0 {
		c.referenced.Store(1)
	}
}

// blockCache bounds the bytes of the blocks that tables keep in their slots. Reading
// one takes no lock. When a new one needs room, a clock hand goes around and drops
// the first that was not read since it last came by. What is dropped is left to the
// garbage collector, so whoever still reads it may go on.
type blockCache struct {
	limit int64

	mu    sync.Mutex
	bytes int64
	clock []cacheEntry
	hand  int
	free  []int // of clock
}

type cacheEntry struct {
	slot  *blockSlot // nil: free
	block *cachedBlock
}

const cacheEntryBytes = int64(unsafe.Sizeof(cacheEntry{}))

// newBlockCache returns a cache that holds at most this many bytes. It may be too few
// for any block.
func newBlockCache(bytes int64) *blockCache { return &blockCache{limit: bytes} }

// Bytes returns what the cache holds, never more than its limit.
func (c *blockCache) Bytes() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes
}

func cost(block *cachedBlock) int64 { return int64(block.allocated) + cacheEntryBytes }

// add puts a block into its slot, unless another goroutine has done so meanwhile or the block is larger than the
// whole cache. With evict other blocks make room for it; without, it is left out where there is no room.
func (c *blockCache) add(slot *blockSlot, block *cachedBlock, evict bool) {
	size := cost(block)
	if size > c.limit {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if slot.block.Load() != nil || !evict && c.bytes+size > c.limit {
		return
	}
	for c.bytes+size > c.limit {
		c.evict()
	}
	entry := cacheEntry{slot, block}
	if n := len(c.free); n > 0 {
		c.clock[c.free[n-1]] = entry
		c.free = c.free[:n-1]
	} else {
		c.clock = append(c.clock, entry)
	}
	c.bytes += size
	slot.block.Store(block)
}

// evict drops one block; there must be one.
func (c *blockCache) evict() {
	// Readers may set the bits again behind the hand, so it stops after a round.
	for passed := 0; ; c.hand++ {
		if c.hand >= len(c.clock) {
			c.hand = 0
		}
		entry := &c.clock[c.hand]
		if entry.slot == nil {
			continue
		}
		if passed < len(c.clock) && entry.block.referenced.Load() != 0 {
			entry.block.referenced.Store(0)
			passed++
			continue
		}
		c.bytes -= cost(entry.block)
		entry.slot.block.Store(nil)
		*entry = cacheEntry{}
		c.free = append(c.free, c.hand)
		c.hand++
		return
	}
}
