package index

import (
	"math/bits"
	"sync/atomic"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/internal/offheap"
)

// shingleCache holds the Shingles of documents that were candidates, by ID. In a crawl of one
// language and subject, a query has many candidates whose Shingles are far from its own. Without
// the cache, each costs a read of its record.
//
// The Shingles of an ID never change: IDs are not reused, and a recrawl with other Shingles gets a
// new ID. A shingleCache is safe for concurrent use until free is called.
type shingleCache struct {
	slots []shingleSlot // their number is a power of two, or 0
	free  func()
}

// shingleSlot holds the Shingles of one of the documents whose IDs have the same low bits. If a
// reader finds the same owner before and after it reads the Shingles, they belong to this owner.
type shingleSlot struct {
	owner    atomic.Uint64 // from the top: 23 bits that count its changes, 1 bit that is set during one, 40 bits: 1 more than the ID's other bits
	shingles [4]atomic.Uint64
}

const (
	shingleSlotBytes = 40
	changingOwner    = 1 << 40
)

// 1/shingleShare of Options.CacheBytes, in addition to it, is for Shingles.
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

// slot returns the slot of an ID and the owner value of the ID, or nil if there is no slot.
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

// put stores Shingles, unless they are zero or another goroutine writes to the slot.
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
