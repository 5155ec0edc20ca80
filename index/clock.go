package index

import (
	"time"

	"github.com/neardup/neardup/store"
)

// clockRange is a range of IDs whose documents arrived in one second. The last one
// looked up is kept: documents that were loaded in bulk are all of one.
type clockRange struct {
	first, end uint64
	added      time.Time
}

// added returns when a document arrived.
func (r *reader) added(id uint64) (added time.Time, err error) {
	if c := r.x.clock.Load(); c != nil && c.first <= id && id < c.end {
		return c.added, nil
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

// lookUpClock asks a view that has all documents with IDs below next.
func (x *Index) lookUpClock(v *store.View, id, next uint64) (time.Time, error) {
	first, end, seconds, found, err := v.ClockRange(id, next)
	if err != nil || !found {
		return time.Time{}, err
	}
	c := &clockRange{first, end, time.Unix(int64(seconds), 0).UTC()}
	x.clock.Store(c)
	return c.added, nil
}
