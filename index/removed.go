package index

import (
	"context"
	"iter"
	"sync"
	"sync/atomic"

	"github.com/RoaringBitmap/roaring/v2/roaring64"
)

// removedIDs holds the IDs that were removed in one epoch. A writer adds an ID before the removal
// becomes visible, so an ID that is not in the set has not been removed in any snapshot taken so
// far. Of the last removals it knows the position among all writes, which tells whether a snapshot
// shows them.
//
// It takes about 2 bytes per scattered ID, and less if the IDs are adjacent. All methods are safe
// for concurrent use. lookUp, which searches call, waits for no lock.
type removedIDs struct {
	mu      sync.RWMutex
	ids     *roaring64.Bitmap
	empty   atomic.Bool       // nothing was removed
	loaded  bool              // the IDs that were stored before Open are in ids
	latest  map[uint64]uint64 // of the last removals: ID, to position among the recent writes
	order   []uint64          // IDs of latest, in a ring
	oldest  int               // in order
	evicted uint64            // all removals that are not in latest have positions before this one

	cancel context.CancelFunc
	done   chan struct{} // closed when loading has ended
}

// latestRemovals bounds the removals whose positions are known.
const latestRemovals = 4096

// removal is the answer of lookUp.
type removal int

const (
	notRemoved   removal = iota
	removed              // in the snapshot
	maybeRemoved         // the snapshot must be asked
)

// newRemovedIDs returns an empty set.
func newRemovedIDs() *removedIDs {
	r := &removedIDs{ids: roaring64.New(), loaded: true, cancel: func() {}, done: make(chan struct{})}
	r.empty.Store(true)
	close(r.done)
	return r
}

// loadRemovedIDs returns a set that reads stored IDs in the background. Until it has read all of
// them, every ID may be in the set. failed is called with the error that ended the loading, or nil.
func loadRemovedIDs(stored iter.Seq2[uint64, error], failed func(error)) *removedIDs {
	ctx, cancel := context.WithCancel(context.Background())
	r := &removedIDs{ids: roaring64.New(), cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		ids := roaring64.New()
		for id, err := range stored {
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				failed(err)
				return
			}
			ids.Add(id)
		}
		ids.RunOptimize()
		r.mu.Lock()
		r.ids.Or(ids)
		r.loaded = true
		r.empty.Store(r.ids.IsEmpty())
		r.mu.Unlock()
		failed(nil)
	}()
	return r
}

// add adds IDs whose removal is about to be applied, the first at a position among the recent
// writes, the others at the next positions.
func (r *removedIDs) add(ids []uint64, position uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ids.AddMany(ids)
	if r.latest == nil {
		r.latest = make(map[uint64]uint64)
	}
	for i, id := range ids {
		if len(r.order) < latestRemovals {
			r.order = append(r.order, id)
		} else {
			old := r.order[r.oldest]
			r.evicted = max(r.evicted, r.latest[old]+1)
			delete(r.latest, old)
			r.order[r.oldest] = id
			r.oldest = (r.oldest + 1) % latestRemovals
		}
		r.latest[id] = position + uint64(i)
	}
	r.empty.Store(false)
}

// lookUp reports whether an ID was removed in a snapshot that shows all writes before a position.
func (r *removedIDs) lookUp(id, position uint64) removal {
	if r.empty.Load() {
		return notRemoved
	}
	if !r.mu.TryRLock() {
		return maybeRemoved
	}
	defer r.mu.RUnlock()
	at, known := r.latest[id]
	switch {
	case !r.loaded:
		return maybeRemoved
	case !r.ids.Contains(id):
		return notRemoved
	case known && at < position, !known && r.evicted <= position && position > 0:
		return removed
	}
	return maybeRemoved
}

// count returns the number of IDs that were read or added.
func (r *removedIDs) count() uint64 {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.ids.GetCardinality()
}

// bytes returns the memory that the set takes.
func (r *removedIDs) bytes() int64 {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return int64(r.ids.GetSizeInBytes())
}

// close stops the loading and waits for its end.
func (r *removedIDs) close() {
	r.cancel()
	<-r.done
}
