package index

import (
	"sync/atomic"

	"github.com/neardup/neardup/fingerprint"
)

// shingleCache holds Shingles of documents that were candidates, by ID. In a crawl of
// one language and subject a query has many candidates whose Shingles are far from its
// own; without this, each costs a read of its record.
//
// What is known of an ID stays right: it is never given to another document, and none
// changes. Its methods may be called from any goroutine. A page that takes the slot of
// another makes the other's Shingles unknown again.
type shingleCache struct {
	slots atomic.Pointer[[]atomic.Pointer[shinglePage]]
	limit int64 // of bytes
}

// shinglePage has the Shingles of the documents from number*pageShingles on; 0: unknown.
type shinglePage struct {
	number uint64
	values [pageShingles]atomic.Uint64
}

const (
	pageShingles     = 64
	shinglePageBytes = pageShingles*8 + 64 // with its slot, and what the allocator adds
)

// shingleShare is what part of Options.CacheBytes is for Shingles, on top.
const shingleShare = 16

func (c *shingleCache) get(id uint64) (fingerprint.Fingerprint, bool) {
	slots := c.slots.Load()
	if slots == nil {
		return 0, false
	}
	number := id / pageShingles
	p := (*slots)[number%uint64(len(*slots))].Load()
	if p == nil || p.number != number {
		return 0, false
	}
	shingle := p.values[id%pageShingles].Load()
	return fingerprint.Fingerprint(shingle), shingle != 0
}

func (c *shingleCache) put(id uint64, shingle fingerprint.Fingerprint) {
	if shingle == 0 || c.limit < shinglePageBytes {
		return
	}
	slots := c.slots.Load()
	if slots == nil {
		empty := make([]atomic.Pointer[shinglePage], c.limit/shinglePageBytes)
		c.slots.CompareAndSwap(nil, &empty)
		slots = c.slots.Load()
	}
	number := id / pageShingles
	slot := &(*slots)[number%uint64(len(*slots))]
	p := slot.Load()
	if p == nil || p.number != number {
		p = &shinglePage{number: number}
		slot.Store(p)
	}
	p.values[id%pageShingles].Store(uint64(shingle))
}
