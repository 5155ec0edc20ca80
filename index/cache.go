package index

import (
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/internal/offheap"
	"github.com/neardup/neardup/store"
)

// clockCache keeps what was asked of the clock, so that the time of a match is mostly no look-up of its own. Nobody
// waits for it: who finds it in use looks up what it may have, or leaves what was looked up.
type clockCache struct {
	mu     sync.RWMutex
	ranges []clockRange // by ID
}

// clockRange is an entry of the clock, and the IDs before end that it is known to tell of.
type clockRange struct {
	store.ClockEntry
	end uint64
}

// maxClockRanges is how many are kept, in 96 KiB. In a crawl each is a second, after a bulk load it has documents by the million.
const maxClockRanges = 4096

func (c *clockCache) find(id uint64) (i int, found bool) {
	return slices.BinarySearchFunc(c.ranges, id, func(r clockRange, id uint64) int { return idRange{r.First, r.end}.compare(id) })
}

// get returns the entry of a document, if it is known.
func (c *clockCache) get(id uint64) (entry store.ClockEntry, found bool) {
	if !c.mu.TryRLock() {
		return entry, false
	}
	defer c.mu.RUnlock()
	i, found := c.find(id)
	if found {
		entry = c.ranges[i].ClockEntry
	}
	return entry, found
}

// put takes the entry of a document.
func (c *clockCache) put(entry store.ClockEntry, id uint64) {
	if !c.mu.TryLock() {
		return
	}
	defer c.mu.Unlock()
	i, found := c.find(entry.First)
	if found {
		c.ranges[i].end = max(c.ranges[i].end, id+1)
		return
	}
	if len(c.ranges) == maxClockRanges {
		c.ranges, i = c.ranges[:0], 0
	}
	c.ranges = slices.Insert(c.ranges, i, clockRange{entry, id + 1})
}

// added returns when a document arrived. Error: errConflict, if the clock has forgotten some
// that have expired since a search that took no view; the document may be one of them.
func (r *reader) added(id uint64) (added time.Time, err error) {
	if r.v != nil {
		return r.x.added(r.v, id)
	}
	if entry, found := r.x.clock.get(id); found {
		return entry.Added(), nil
	}
	err = r.x.withView(func(v *store.View) error {
		if r.x.forgotten.Load() != r.forgotten {
			return errConflict
		}
		added, err = r.x.added(v, id)
		return err
	})
	return added, err
}

// added returns when a document arrived that a view has. Nothing is kept of later ones: the view may not have what the
// clock says of them.
func (x *Index) added(v *store.View, id uint64) (time.Time, error) {
	entry, found := x.clock.get(id)
	if !found {
		var err error
		if entry, found, err = v.ClockAt(id); err != nil || !found {
			return time.Time{}, err
		}
		x.clock.put(entry, id)
	}
	return entry.Added(), nil
}

// shingleCache holds Shingles of documents that were candidates, by ID. In a crawl of
// one language and subject a query has many candidates whose Shingles are far from its
// own; without this, each costs a read of its record.
//
// What is known of an ID stays right: it is never given to another document, and none
// changes. Its methods may be called from any goroutine, but for free, which is the last.
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
