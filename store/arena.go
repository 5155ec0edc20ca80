package store

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/neardup/neardup/internal/offheap"
	"github.com/neardup/neardup/internal/prefetch"
	"github.com/neardup/neardup/internal/process"
)

// arena keeps packed blocks in memory outside the Go heap. Blocks are added until the arena is
// full, and they stay in place until the last Tables that share the arena are released. So a reader
// that holds Tables reads a block without a lock and without a copy.
type arena struct {
	limit   int64         // bytes of memory
	bytes   atomic.Int64  // of the blocks, each rounded up to blockAlign
	holders atomic.Int64  // the number of Tables that share the arena
	freed   chan struct{} // closed when the memory has been freed
	stop    chan struct{} // closed when the arena must not be filled any more
	once    sync.Once     // closes stop

	mu          sync.Mutex
	memory      []byte // nil before open, and if limit is 0
	free        func()
	directories []*directory // freed with the memory
}

// place is the position of a block in an arena. The low lengthBits bits are the length of the
// block, the others its offset in units of blockAlign. The place of a block that is not in the
// arena is 0.
type place = atomic.Uint64

const (
	blockAlign  = 8
	lengthBits  = 24 // a longer block is not added
	maxInArena  = 1<<lengthBits - 1
	maxArena    = int64(1) << (64 - lengthBits) * blockAlign
	fillingRoom = 32 << 20 // limits the growth of Pebble's cache while an arena is filled
)

// newArena returns an arena with one holder. open allocates its memory.
func newArena(limit int64) *arena {
	a := &arena{limit: min(limit, maxArena) &^ (blockAlign - 1), freed: make(chan struct{}),
		stop: make(chan struct{})}
	a.holders.Store(1)
	return a
}

// open allocates the memory. The system provides a page of it when the page is first written.
func (a *arena) open() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.memory == nil && a.limit > 0 {
		a.memory, a.free = offheap.Make[byte](int(a.limit))
	}
}

// add copies block i of a directory into the arena, unless the arena contains it. It reports
// whether the arena may have room for more blocks.
func (a *arena) add(d *directory, i int, block []byte) (more bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	begin := a.bytes.Load()
	size := alignedSize(len(block))
	switch {
	case d.slots[i].place.Load() != 0 || len(block) > maxInArena:
		return true
	case begin+size > int64(len(a.memory)):
		return false
	}
	copy(a.memory[begin:], block)
	a.bytes.Store(begin + size)
	d.slots[i].place.Store(uint64(begin)/blockAlign<<lengthBits | uint64(len(block)))
	return true
}

// alignedSize returns the number of bytes that a block occupies in an arena.
func alignedSize(length int) int64 { return int64(length+blockAlign-1) &^ (blockAlign - 1) }

// block returns the block at a place.
func (a *arena) block(at uint64) []byte {
	begin, length := at>>lengthBits*blockAlign, at&maxInArena
	return a.memory[begin : begin+length : begin+length]
}

// prefetch loads the first bytes of the block at a place, which a probe reads first.
func (a *arena) prefetch(at uint64) {
	const positionBytes = 128 // header and unary part of a block of usual size
	prefetch.Bytes(unsafe.Pointer(&a.memory[at>>lengthBits*blockAlign]), positionBytes)
}

// stopFilling ends the filling of the arena after the next block.
func (a *arena) stopFilling() { a.once.Do(func() { close(a.stop) }) }

func (a *arena) isStopped() bool {
	select {
	case <-a.stop:
		return true
	default:
		return false
	}
}

// release removes a holder. The last one frees the memory and the directories.
func (a *arena) release() {
	if a.holders.Add(-1) > 0 {
		return
	}
	for _, d := range a.directories {
		d.free()
	}
	if a.free != nil {
		a.free()
	}
	a.memory = nil
	close(a.freed)
}

// startFilling fills the arena of tables in the background, in the order of the keys. Only one
// arena fits in memory, so it waits until the previous arena has been freed. Until then, readers
// read files.
func (s *Store) startFilling(t *Tables, before *arena) {
	if before == nil {
		t.arena.open()
	}
	if before == nil && !s.fillsArena {
		return
	}
	t.Hold()
	s.filling.Go(func() {
		defer t.Release()
		if before != nil {
			select {
			case <-before.freed:
				t.arena.open()
			case <-t.arena.stop:
				return
			}
		}
		if s.fillsArena {
			defer s.limitPebbleCache()()
			t.fill()
		}
	})
}

// fill adds packed blocks to the arena until it is full. After an error it goes on with the next
// table: a reader of the block will get the error.
func (t *Tables) fill() {
	v, err := t.View()
	if err != nil {
		return
	}
	defer v.Close()
	for table, p := range t.packed {
		r := newBlockReader(p, 0)
		blocks := scan(v, tableStart(packedKeyspace, table), tableEnd(packedKeyspace, table),
			func(key, value []byte) (more bool, err error) {
				if _, err = r.decode(key, value); err == nil {
					more = t.arena.add(p.directory, r.next-1, value)
				}
				return more, err
			})
		for more, err := range blocks {
			if err != nil {
				break
			}
			if !more || t.arena.isStopped() {
				return
			}
		}
	}
}

// limitPebbleCache keeps Pebble's cache from growing by more than fillingRoom until the caller
// calls release. Each packed block is read once, and then is in the arena. If Options.CacheBytes is
// set, it limits the cache already.
func (s *Store) limitPebbleCache() (release func()) {
	cache := s.options.Cache
	memtables := s.Metrics().MemTable // reserved in the cache
	if room := cache.MaxSize() - int64(memtables.Size+
		memtables.ZombieSize) - cache.Size() - fillingRoom; s.cacheBytes == 0 && room > 0 {
		return cache.Reserve(int(room))
	}
	return func() {}
}

// waitForFilling waits until no arena is being filled. If the store has failed, it waits at most a
// second, since a read may never return.
func (s *Store) waitForFilling() {
	ended := make(chan struct{})
	go func() { s.filling.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(time.Second):
		_ = s.guard(func() error { <-ended; return nil })
	}
}

// Default sizes of caches: packed blocks get the memory that they need, but at most half of the
// machine's memory. Pebble's cache gets an eighth of the machine's memory, but at most 512 MiB.
const (
	maxPebbleBytes = 512 << 20
	pebbleShare    = 8
	packedShare    = 2
)

// pebbleCacheBytes returns the largest size of Pebble's cache. total is Options.CacheBytes.
func pebbleCacheBytes(total int64) int64 {
	if total > 0 {
		return total
	}
	return min(maxPebbleBytes, process.Memory()/pebbleShare)
}

// writeBytes returns the size of memtables, which Pebble reserves in its cache. A limit in Options
// includes them. One memtable is written, one is flushed or kept for reuse, and an iterator may
// keep a third.
func writeBytes(total int64) int64 {
	if total > 0 {
		return 0
	}
	return 3 * int64(memTableBytes(pebbleCacheBytes(0)))
}

// packedCacheBytes returns the memory for packed blocks: the size of all blocks, but at most three
// quarters of the limit for caches or, without a limit, half of the machine's memory.
func packedCacheBytes(tables []tableInfo, total int64) int64 {
	if total > 0 {
		return min(wantedCacheBytes(tables), total/4*3)
	}
	return min(wantedCacheBytes(tables), process.Memory()/packedShare)
}

// splitCache gives a share of a limited cache to packed blocks, and the rest to Pebble.
func (s *Store) splitCache(packed int64) {
	if s.unreserve != nil {
		s.unreserve()
		s.unreserve = nil
	}
	if s.cacheBytes > 0 && packed > 0 {
		s.unreserve = s.options.Cache.Reserve(int(packed))
	}
}

// wantedCacheBytes returns the size of an arena for all packed blocks.
func wantedCacheBytes(tables []tableInfo) (bytes int64) {
	for _, t := range tables {
		bytes += int64(t.Bytes + t.Blocks*(blockAlign-1))
	}
	return (bytes + blockAlign - 1) &^ (blockAlign - 1)
}

// CacheShort describes the shortage if the cache is too small for all packed blocks. Otherwise it
// returns "".
func (t *Tables) CacheShort() string {
	wanted := wantedCacheBytes(t.packing.tables)
	if t.arena == nil || t.arena.limit >= wanted {
		return ""
	}
	const mib = 1 << 20
	return fmt.Sprintf("the cache holds %d of %d MiB of packed blocks, so queries read files: a "+
		"cache of %d MiB would hold them all",
		t.arena.limit/mib, wanted/mib, (wanted/3*4+mib-1)/mib)
}
