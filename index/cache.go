package index

import (
	"math/bits"
	"sync/atomic"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/internal/offheap"
)

// shingleCache holds the Shingles of documents that were candidates, by ID. In a crawl of one language and
// subject, a query has many candidates whose Shingles are far from its own. Without the cache, each
// costs a read of its record.
//
// The Shingles of an ID never change: no ID is given twice, and a recrawl with other Shingles gets a new
// one. Its methods may be called from any goroutine, except that no call may follow free.
type shingleCache struct {
	slots []shingleSlot // their number is a power of two, or 0
	free  func()
}

// shingleSlot has the Shingles of one of the documents with the same low bits of their IDs. A reader that
// finds the same owner before and after it has read the Shingles has the owner's Shingles.
type shingleSlot struct {
	owner    atomic.Uint64 // from the top: 23 bits that count its changes, 1 bit that is set during one, 40 bits: 1 more than the ID's other bits
	shingles [4]atomic.Uint64
}

const (
	shingleSlotBytes = 40
	changingOwner    = 1 << 40
)

// shingleShare is what part of Options.CacheBytes is for Shingles, on top.
const shingleShare = 16

const (
	defaultShingleBytes = 4 << 20
	maxShingleBytes     = 1 << 30
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

func (c *shingleCache) get(id uint64) (s fingerprint.ShingleSignature, known bool) {
	slot, owner := c.slot(id)
	if slot == nil {
		return s, false
	}
	before := slot.owner.Load()
	if before&(2*changingOwner-1) != owner {
		return s, false
	}
	for i := range s {
		s[i] = slot.shingles[i].Load()
	}
	return s, slot.owner.Load() == before
}

// put keeps Shingles, unless there are none or another goroutine writes to the slot.
func (c *shingleCache) put(id uint64, s fingerprint.ShingleSignature) {
	slot, owner := c.slot(id)
	if slot == nil || s.IsZero() {
		return
	}
	before := slot.owner.Load()
	if before&changingOwner != 0 || before&(changingOwner-1) == owner || !slot.owner.CompareAndSwap(before, before|changingOwner) {
		return
	}
	for i, word := range s {
		slot.shingles[i].Store(word)
	}
	slot.owner.Store((before>>41+1)<<41 | owner)
}
