package index

import (
	"cmp"
	"slices"
	"time"
)

// idRange is the IDs from first to the one before end.
type idRange struct{ first, end uint64 }

// expired is what was added before some time: nearly always all IDs below one. Where the
// clock went backwards, what it was ahead for stays among them.
type expired struct {
	ids    []idRange // ascending, apart
	clocks []idRange // of the clock's entries in each of them, those that may go
}

// has reports whether a document has expired.
func (e *expired) has(id uint64) bool {
	_, found := slices.BinarySearchFunc(e.ids, id, func(r idRange, id uint64) int {
		if r.end <= id {
			return -1
		}
		return cmp.Compare(max(r.first, id), id)
	})
	return found
}

// expiredBefore returns what was added before a time, and whether any document is bare.
func (x *Index) expiredBefore(t time.Time) (e expired, bare bool, err error) {
	v, counters, err := x.snapshot()
	if err != nil {
		return expired{}, false, err
	}
	defer v.Close()
	at := idRange{first: 1}
	old := true // what came before the first entry is that old
	newest := uint64(0)
	for c, err := range v.Clock() {
		if err != nil {
			return expired{}, false, err
		}
		if before := c.Added().Before(t); before != old {
			at.end = c.First
			e.add(at, at.end, old)
			at.first, old = c.First, before
		}
		newest = c.First
	}
	at.end = counters.NextID
	e.add(at, newest, old)
	return e, counters.Bare > 0, nil
}

// add takes a range of IDs if it is old. The first entry of the clock in it stays, so that
// no document of another range comes to have no time or that of another second, and so
// does the newest of all, which is that of what comes next.
func (e *expired) add(r idRange, clockEnd uint64, old bool) {
	if !old || r.first >= r.end {
		return
	}
	e.ids = append(e.ids, r)
	if r.first+1 < clockEnd {
		e.clocks = append(e.clocks, idRange{r.first + 1, clockEnd})
	}
}

// forgetClock drops the clock entries of what has expired.
func (x *Index) forgetClock(e expired) error {
	if len(e.clocks) == 0 {
		return nil
	}
	batch := x.store.NewBatch()
	for _, r := range e.clocks {
		batch.ForgetClock(r.first, r.end)
	}
	finish, err := x.store.Apply(batch, x.opts.Durability == Sync)
	if err != nil {
		return err
	}
	return finish()
}
