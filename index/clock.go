package index

import (
	"cmp"
	"slices"
	"time"

	"github.com/neardup/neardup/internal/store"
)

// clockRange is a range of IDs whose documents arrived in one second.
type clockRange struct {
	first, end uint64
	added      time.Time
}

// maxClockRanges is the number of ranges that are kept. It is enough for what was
// loaded in bulk, where documents by the million are of one second.
const maxClockRanges = 64

// added returns when a document arrived.
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
		added, err = r.x.lookUpClock(v, id, next)
		return err
	})
	return added, err
}

// findRange returns the range that has an ID, or else where it would be.
func findRange(ranges []clockRange, id uint64) (i int, found bool) {
	return slices.BinarySearchFunc(ranges, id, func(c clockRange, id uint64) int {
		if c.end <= id {
			return -1
		}
		return cmp.Compare(max(c.first, id), id)
	})
}

// lookUpClock asks a view that has all documents with IDs below next, and keeps the
// answer.
func (x *Index) lookUpClock(v *store.View, id, next uint64) (time.Time, error) {
	entry, end, found, err := v.ClockRange(id, next)
	if err != nil || !found {
		return time.Time{}, err
	}
	c := clockRange{entry.First, end, entry.Added()}
	var ranges []clockRange
	if known := x.clock.Load(); known != nil && len(*known) < maxClockRanges {
		ranges = slices.DeleteFunc(slices.Clone(*known), func(k clockRange) bool { return k.first == c.first })
	}
	i, _ := findRange(ranges, id)
	ranges = slices.Insert(ranges, i, c)
	x.clock.Store(&ranges)
	return c.added, nil
}
