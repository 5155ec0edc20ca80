package filter

import (
	"context"
	"iter"
	"sync/atomic"
)

// LiveSet has the stored fingerprints of live entries in memory. It reports a fingerprint from its
// addition on. It reports every fingerprint until it has loaded the entries that were stored
// earlier, and if the fingerprints do not fit in its memory. Its answers are therefore correct for
// every view of the store that is opened after the set was created, if writers add fingerprints
// before their writes become visible.
//
// A LiveSet is safe for concurrent use.
type LiveSet struct {
	Loading
	near   *multiIndex
	any    atomic.Bool // a fingerprint was stored or added
	loaded atomic.Bool // near has all fingerprints, or has discarded them
}

// NewLiveSet returns an empty set of at most budget bytes. The caller must close it.
func NewLiveSet(budget int64) *LiveSet {
	s := &LiveSet{near: newMultiIndex(budget)}
	s.loaded.Store(true)
	return s
}

// Load loads stored fingerprints in the background, and then calls done with the error of the
// loading. It must be called before all other methods.
func (s *LiveSet) Load(stored iter.Seq2[uint64, error], done func(error)) {
	s.any.Store(true)
	s.loaded.Store(false)
	s.Start(func(ctx context.Context) error { return s.load(ctx, stored) }, done)
}

func (s *LiveSet) load(ctx context.Context, stored iter.Seq2[uint64, error]) error {
	fps, few, err := atMost(ctx, stored, 0, s.near.room())
	if few {
		s.near.Fill(fps)
	} else {
		s.near.Discard()
	}
	s.loaded.Store(true)
	return err
}

// Add adds fingerprints. A writer must call Add before its entries become visible.
func (s *LiveSet) Add(stored ...uint64) {
	s.near.Add(stored)
	s.any.Store(true)
}

// AppendNear appends the fingerprints within k bits of a fingerprint. It returns false if the set
// does not know them.
func (s *LiveSet) AppendNear(dst []uint64, stored uint64, k int) ([]uint64, bool) {
	if !s.loaded.Load() {
		return dst, false
	}
	return s.near.AppendNear(dst, stored, k)
}

// MayContain reports whether a fingerprint may have been stored or added.
func (s *LiveSet) MayContain(stored uint64) bool {
	return !s.loaded.Load() || s.near.MayContain(stored)
}

// Empty reports whether no fingerprint was stored or added.
func (s *LiveSet) Empty() bool { return !s.any.Load() }

// Bytes returns the memory of the set.
func (s *LiveSet) Bytes() int64 { return s.near.Bytes() }
