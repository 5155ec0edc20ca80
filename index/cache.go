package index

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/internal/store"
)

// clockRange is a range of IDs whose documents arrived in one second.
type clockRange struct {
	idRange
	added time.Time
}

// maxClockRanges is the number of ranges that are kept. It is enough for what was
// loaded in bulk, where documents by the million are of one second.
const maxClockRanges = 64

// added returns when a document arrived. Error: errConflict, if the clock has forgotten some
// that have expired since a search that took no view; the document may be one of them.
func (r *reader) added(id uint64) (added time.Time, err error) {
	if ranges := r.x.clock.Load(); ranges != nil {
		if i, at := findRange(*ranges, id); at {
			return (*ranges)[i].added, nil
		}
	}
	if r.v != nil {
		return r.x.lookUpClock(r.v, id, r.nextID)
	}
	next := r.x.nextID.Load() // before the view is opened
	err = r.x.withView(func(v *store.View) error {
		if r.x.forgotten.Load() != r.forgotten {
			return errConflict
		}
		added, err = r.x.lookUpClock(v, id, next)
		return err
	})
	return added, err
}

// findRange returns the range that has an ID, or else where it would be.
func findRange(ranges []clockRange, id uint64) (i int, found bool) {
	return slices.BinarySearchFunc(ranges, id, func(c clockRange, id uint64) int { return c.compare(id) })
}

// lookUpClock asks a view that has all documents with IDs below next, and keeps the
// answer.
func (x *Index) lookUpClock(v *store.View, id, next uint64) (time.Time, error) {
	entry, end, found, err := v.ClockRange(id, next)
	if err != nil || !found {
		return time.Time{}, err
	}
	c := clockRange{idRange{entry.First, end}, entry.Added()}
	var ranges []clockRange
	if known := x.clock.Load(); known != nil && len(*known) < maxClockRanges {
		ranges = slices.DeleteFunc(slices.Clone(*known), func(k clockRange) bool { return k.first == c.first })
	}
	i, _ := findRange(ranges, id)
	ranges = slices.Insert(ranges, i, c)
	x.clock.Store(&ranges)
	return c.added, nil
}

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

const defaultShingleBytes = 8 << 20

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
