package store

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// readings are of a cache: who reads blocks of it, so that memory is not written to again while
// someone may look at it. What is taken out of all slots before an epoch begins is nobody's once all
// readings are of that epoch or of later ones.
type readings struct {
	epoch atomic.Uint64 // even
	all   atomic.Pointer[[]*Reading]
	mu    sync.Mutex // held to add some
}

// Reading keeps what PackedTable.Block gives as it is, until Done.
type Reading struct {
	of    *readings
	since atomic.Uint64 // the epoch that it began in, and 1; 0: free
	_     [112]byte     // others are in other cache lines
}

func (r *readings) init() {
	r.epoch.Store(2)
	r.all.Store(new([]*Reading))
}

// begin begins a reading: the one that the caller had last, if that is free.
func (r *readings) begin(last *Reading) *Reading {
	if last != nil && last.of == r && last.take() {
		return last
	}
	for {
		all := *r.all.Load()
		for _, reading := range all {
			if reading.take() {
				return reading
			}
		}
		r.mu.Lock()
		if more := *r.all.Load(); len(more) == len(all) {
			more = append(more[:len(more):len(more)], &Reading{of: r}, &Reading{of: r})
			r.all.Store(&more)
		}
		r.mu.Unlock()
	}
}

// take takes the reading if it is free. Whoever saw it free after that had emptied the slots before
// any is looked at.
func (r *Reading) take() bool {
	return r.since.Load() == 0 && r.since.CompareAndSwap(0, r.of.epoch.Load()|1)
}

// Done lets go of all blocks that were had.
func (r *Reading) Done() { r.since.Store(0) }

// next begins an epoch and returns it: what begins from now on does not find what was taken out
// of the slots before.
func (r *readings) next() uint64 { return r.epoch.Add(2) }

// oldest returns the epoch of the oldest reading.
func (r *readings) oldest() uint64 {
	oldest := uint64(math.MaxUint64)
	for _, reading := range *r.all.Load() {
		if since := reading.since.Load(); since != 0 {
			oldest = min(oldest, since)
		}
	}
	return oldest
}

// wait returns once all readings are of an epoch or later ones.
func (r *readings) wait(epoch uint64) {
	for pause := time.Microsecond; r.oldest() < epoch; pause = min(2*pause, time.Millisecond) {
		time.Sleep(pause)
	}
}
