package index

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/RoaringBitmap/roaring/v2/roaring64"
	"github.com/neardup/neardup/internal/filter"
	"github.com/neardup/neardup/internal/rewrite"
	"github.com/neardup/neardup/store"
)

func init() {
	rewrite.Repack = func(ctx context.Context, x any, pack rewrite.Pack) error {
		i := x.(*Index)
		return i.alone(ctx, i.rewriting, func(ctx context.Context) error {
			return i.repack(ctx, pack)
		})
	}
}

// repack packs an open index. It freezes the live entries and calls pack, which makes new tables
// outside the index while other calls run. It installs these tables in one step, during which
// commits wait. An epoch that an interrupted repack left frozen is packed first. If there is
// nothing to pack, repack does not call pack. After an error no document is lost: the index
// continues with the frozen epoch until the next repack.
func (x *Index) repack(ctx context.Context, pack rewrite.Pack) error {
	if x.state.Load().tables.Frozen() {
		if err := x.packAgain(ctx, pack); err != nil {
			return err
		}
	}
	if any, err := x.hasLive(); err != nil || !any && x.state.Load().tables.Generation() > 0 {
		return err
	}
	view, counters, err := x.freeze(ctx)
	if err != nil {
		return err
	}
	return x.packFrozen(ctx, view, counters, pack)
}

// packAgain packs the epoch that an interrupted repack left frozen.
func (x *Index) packAgain(ctx context.Context, pack rewrite.Pack) error {
	view, counters, err := x.snapshot()
	if err != nil {
		return err
	}
	last, err := view.LastLiveID(0)
	if err != nil {
		return errors.Join(err, view.Close())
	}
	// as it was when the epoch was frozen
	counters.NextID = max(x.state.Load().tables.PackedBefore(), last+1)
	return x.packFrozen(ctx, view, counters, pack)
}

// hasLive reports whether there is any live entry or removed ID.
func (x *Index) hasLive() (any bool, err error) {
	err = x.withView(func(v *store.View) error {
		any, err = v.HasLive()
		return err
	})
	return any, err
}

// freeze starts a new epoch, and the state that has it. It returns a view of that time, and the
// counters.
func (x *Index) freeze(ctx context.Context) (v *store.View, counters store.Counters, err error) {
	if err := x.store.WaitForCheckpoint(ctx); err != nil {
		return nil, counters, err
	}
	s := x.state.Load()
	newest := x.newEpoch()
	x.commitMu.Lock()
	defer x.commitMu.Unlock()
	s.replacedAt.Store(x.recent.mark())
	if err := x.store.Freeze(); err != nil {
		newest.close()
		return nil, counters, err
	}
	next := s.with(x.store.Tables())
	next.live = append(next.live, newest)
	x.setState(next)
	v, err = x.store.View()
	return v, x.counters, err
}

// packFrozen packs the frozen epoch and installs the new tables. It closes the view.
func (x *Index) packFrozen(
	ctx context.Context, view *store.View, counters store.Counters, pack rewrite.Pack,
) (err error) {
	defer func() { err = errors.Join(err, view.Close()) }()
	f := rewrite.Frozen{Store: x.store, View: view.Frozen(), Plan: x.plan, Counters: counters,
		FilterBytes: x.opts.FilterBytes}
	packed, err := pack(ctx, f)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, packed.Close()) }()
	filters := x.packedOptions(packed.Entries)
	filters.Saved, filters.All = packed.Filter, storedOfEntries(view.Frozen())
	filters.Done = func(err error) { x.warn("packed entries", err) }
	set := filter.NewPackedSet(filters)
	if err := set.Wait(ctx); err != nil {
		set.Close()
		return err
	}
	return x.install(ctx, set, packed.Rewrite)
}

// install makes the tables of a Rewrite the tables of the index, and packed their filters.
func (x *Index) install(ctx context.Context, packed *filter.PackedSet, r *store.Rewrite) error {
	x.commitMu.Lock()
	before := x.state.Load()
	before.replacedAt.Store(x.recent.mark())
	err := x.store.Take(ctx, r)
	next := before.with(x.store.Tables())
	if err != nil {
		// The tables may have been replaced all the same. The tables of the state are a snapshot
		// from before.
		x.setState(next)
		x.commitMu.Unlock()
		packed.Close()
		return err
	}
	next.packed, next.live = packed, before.live[1:]
	// The filter of the keys is still right, but it has the keys of removed documents as well.
	keys, err := x.keyFilter(next.tables.PackedBefore())
	if keys != nil {
		next.keys = keys
	}
	x.setState(next)
	x.commitMu.Unlock()
	before.packed.Close()
	before.live[0].close()
	if keys != nil {
		before.keys.Close()
	}
	return err
}

// storedOfEntries yields the stored fingerprints of table 0.
func storedOfEntries(v *store.View) iter.Seq2[uint64, error] {
	return func(yield func(uint64, error) bool) {
		for p, err := range v.Entries(0) {
			if !yield(p.Stored, err) || err != nil {
				return
			}
		}
	}
}

// state is an immutable snapshot of the tables, and of the filters that show what need not be
// searched in them. Freezing an epoch and installing new tables replace it, under the commit lock.
// A reader that holds an older state reads the index as it was just before that state was replaced.
type state struct {
	tables *store.Tables
	packed *filter.PackedSet
	live   []liveEpoch // commits write to the last
	keys   *filter.KeySet

	// Views of the state that are taken after it was replaced show no write from this position on.
	// 0: it was not replaced.
	replacedAt atomic.Uint64
}

// liveEpoch is the part of an epoch that is in memory. Both parts grow with commits.
type liveEpoch struct {
	*filter.LiveSet
	removed *removedIDs
}

func (l liveEpoch) close() {
	l.LiveSet.Close()
	l.removed.Close()
}

// hold returns the state. Its tables must be released.
func (x *Index) hold() *state {
	for {
		s := x.state.Load()
		s.tables.Hold()
		if x.state.Load() == s {
			return s
		}
		s.tables.Release() // the index may have released them
	}
}

// setState replaces the state and releases the tables of the one before. The commit lock must be
// held.
func (x *Index) setState(next *state) { x.state.Swap(next).tables.Release() }

// with returns a state with other tables.
func (s *state) with(tables *store.Tables) *state {
	return &state{tables: tables, packed: s.packed, live: slices.Clip(s.live), keys: s.keys}
}

// newest returns the epoch that commits write to.
func (s *state) newest() liveEpoch { return s.live[len(s.live)-1] }

// mayBeLive reports whether there may be a live entry of a stored fingerprint.
func (s *state) mayBeLive(stored uint64) bool {
	for _, live := range s.live {
		if live.MayContain(stored) {
			return true
		}
	}
	return false
}

// lookUpRemoved reports whether an ID has been removed since the last compaction, in a snapshot
// that shows all writes before a position.
func (s *state) lookUpRemoved(id, position uint64) (answer removal) {
	for _, live := range s.live {
		answer = max(answer, live.removed.lookUp(id, position))
		if answer == removed {
			break
		}
	}
	return answer
}

// memory returns the memory of the filters and of the removed IDs.
func (s *state) memory() int64 {
	bytes := s.packed.Bytes() + s.keys.Bytes()
	for _, live := range s.live {
		bytes += live.Bytes() + live.removed.bytes()
	}
	return bytes
}

func (s *state) close() {
	if s.packed != nil {
		s.packed.Close()
	}
	if s.keys != nil {
		s.keys.Close()
	}
	for _, live := range s.live {
		live.close()
	}
	s.tables.Release()
}

// removedIDs holds the IDs that were removed in one epoch. A writer adds an ID before the removal
// becomes visible, so an ID that is not in the set has not been removed in any snapshot taken so
// far. It knows the position of the last removal among all writes: a snapshot that shows this
// removal shows all of them.
//
// It takes about 2 bytes per scattered ID, and less if the IDs are adjacent. All methods are safe
// for concurrent use. lookUp, which searches call, waits for no lock.
type removedIDs struct {
	filter.Loading
	mu     sync.RWMutex
	ids    *roaring64.Bitmap
	empty  atomic.Bool // nothing was removed
	loaded bool        // the IDs that were stored before Open are in ids
	end    uint64      // all removals have positions among the recent writes before this one
}

// removal is the answer of lookUp.
type removal int

const (
	notRemoved   removal = iota
	removed              // in the snapshot
	maybeRemoved         // the snapshot must be asked
)

// newRemovedIDs returns an empty set.
func newRemovedIDs() *removedIDs {
	r := &removedIDs{ids: roaring64.New(), loaded: true}
	r.empty.Store(true)
	return r
}

// load reads stored IDs in the background, and calls done with the error. Until it has read all of
// them, every ID may be in the set. It must be called before all other methods.
func (r *removedIDs) load(stored iter.Seq2[uint64, error], done func(error)) {
	r.loaded = false
	r.empty.Store(false)
	r.Start(func(ctx context.Context) error {
		ids := roaring64.New()
		for id, err := range stored {
			if err = cmp.Or(err, ctx.Err()); err != nil {
				return err
			}
			ids.Add(id)
		}
		ids.RunOptimize()
		r.mu.Lock()
		defer r.mu.Unlock()
		r.ids.Or(ids)
		r.loaded = true
		r.empty.Store(r.ids.IsEmpty())
		return nil
	}, done)
}

// add adds IDs whose removal is about to be applied, the first at a position among the recent
// writes, the others at the next positions.
func (r *removedIDs) add(ids []uint64, position uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ids.AddMany(ids)
	r.end = position + uint64(len(ids))
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
	switch {
	case !r.loaded:
		return maybeRemoved
	case !r.ids.Contains(id):
		return notRemoved
	case r.end <= position && position > 0:
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
