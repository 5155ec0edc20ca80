package index

import (
	"math/bits"
	"sync/atomic"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/internal/offheap"
)

// shingleCache holds Shingles of documents that were candidates, by ID. In a crawl of
// one language and subject a query has many candidates whose Shingles are far from its
// own; without this, each costs a read of its record.
//
// The Shingle of an ID never changes: no ID is given twice, and a recrawl with another Shingle gets a new one. Its methods may be called from any goroutine, but for free, which is the last.
type shingleCache struct {
	slots []shingleSlot // their number is a power of two, or 0
	free  func()
}

// shingleSlot has the Shingle of one of the documents with the same low bits of their IDs. A reader that
// finds one owner before and after it has read the Shingle has that of the owner.
type shingleSlot struct {
	owner   atomic.Uint64 // from the top: 23 bits that count its changes, 1 bit that is set during one, 40 bits: 1 more than the ID's other bits
	shingle atomic.Uint64
}

const (
	shingleSlotBytes = 16
	changingOwner    = 1 << 40
)

// shingleShare is what part of Options.CacheBytes is for Shingles, on top.
const shingleShare = 16

const (
	defaultShingleBytes = 4 << 20
	maxShingleBytes     = 1 << 30 // 67 million Shingles
)

// newShingleCache returns a cache that takes at most this many bytes.
func newShingleCache(limit int64) shingleCache {
	n := 0
	if slots := limit / shingleSlotBytes; slots > 0 {
		n = 1 << (bits.Len64(uint64(slots)) - 1)
	}
	slots, free := offheap.Make[shingleSlot](n)
	return shingleCache{slots, free}
}

// slot returns that of an ID, and what its owner has of it; nil if it has none.
func (c *shingleCache) slot(id uint64) (slot *shingleSlot, owner uint64) {
	n := uint64(len(c.slots))
	if n == 0 || id/n >= changingOwner-1 {
		return nil, 0
	}
	return &c.slots[id&(n-1)], id/n + 1
}

func (c *shingleCache) get(id uint64) (fingerprint.Fingerprint, bool) {
	slot, owner := c.slot(id)
	if slot == nil {
		return 0, false
	}
	before := slot.owner.Load()
	shingle := slot.shingle.Load()
	known := before&(2*changingOwner-1) == owner && slot.owner.Load() == before
	return fingerprint.Fingerprint(shingle), known
}

// put keeps a Shingle, unless it is 0 or another goroutine puts one there.
func (c *shingleCache) put(id uint64, shingle fingerprint.Fingerprint) {
	slot, owner := c.slot(id)
	if slot == nil || shingle == 0 {
		return
	}
	before := slot.owner.Load()
	if before&changingOwner != 0 || before&(changingOwner-1) == owner || !slot.owner.CompareAndSwap(before, before|changingOwner) {
		return
	}
	slot.shingle.Store(uint64(shingle))
	slot.owner.Store((before>>41+1)<<41 | owner)
}
