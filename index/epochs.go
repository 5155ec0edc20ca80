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

// repack packs an open index. It freezes the live entries and calls pack, which builds new tables
// outside the database while other calls run. It installs these tables in one step, during which
// commits wait. An epoch that an interrupted repack left frozen is packed first. If nothing was
// added or removed since the last compaction, repack does not call pack. An error loses no
// document: the index continues with the frozen epoch until the next repack.
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
	// the next ID at the moment when the epoch was frozen
	counters.NextID = max(x.state.Load().tables.PackedBefore(), last+1)
	return x.packFrozen(ctx, view, counters, pack)
}

// hasLive reports whether the index has a live entry or a removed ID.
func (x *Index) hasLive() (any bool, err error) {
	err = x.withView(func(v *store.View) error {
		any, err = v.HasLive()
		return err
	})
	return any, err
}

// freeze starts a new epoch and sets the state that has it. It returns a view and the counters of
// this moment.
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

// install replaces the packed tables and the frozen epoch by the tables of a Rewrite. packed has
// the filters of these tables.
func (x *Index) install(ctx context.Context, packed *filter.PackedSet, r *store.Rewrite) error {
	x.commitMu.Lock()
	before := x.state.Load()
	before.replacedAt.Store(x.recent.mark())
	err := x.store.Take(ctx, r)
	next := before.with(x.store.Tables())
	if err != nil {
		// The store may have replaced its tables in spite of the error, so the state gets the
		// current ones.
		x.setState(next)
		x.commitMu.Unlock()
		packed.Close()
		return err
	}
	next.packed, next.live = packed, before.live[1:]
	// The old filter of the keys remains correct, but also has the keys of removed documents.
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

// state is an immutable snapshot of the tables, with the filters that avoid searches in them.
// Freezing an epoch and installing new tables replace the state, under the commit lock. A reader
// that holds an older state reads the index as it was just before that state was replaced.
type state struct {
	tables *store.Tables
	packed *filter.PackedSet
	live   []liveEpoch // commits write to the last
	keys   *filter.KeySet

	// A view of the state that is opened after the state was replaced shows no write from this
	// position on. 0: the state was not replaced.
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

// hold returns the current state. The caller must release its tables.
func (x *Index) hold() *state {
	for {
		s := x.state.Load()
		s.tables.Hold()
		if x.state.Load() == s {
			return s
		}
		s.tables.Release() // setState may have released them before Hold
	}
}

// setState replaces the state, and releases the tables of the previous state. The commit lock must
// be held.
func (x *Index) setState(next *state) { x.state.Swap(next).tables.Release() }

// with returns a copy of the state with other tables.
func (s *state) with(tables *store.Tables) *state {
	return &state{tables: tables, packed: s.packed, live: slices.Clip(s.live), keys: s.keys}
}

// newest returns the epoch that commits write to.
func (s *state) newest() liveEpoch { return s.live[len(s.live)-1] }

// mayBeLive reports whether a stored fingerprint may have a live entry.
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

// removedIDs is the set of the IDs that were removed in one epoch. A writer adds an ID before the
// removal becomes visible, so an ID that is not in the set is not removed in any snapshot so far.
// The set has the position of the last removal among the recent writes: a snapshot that shows this
// removal shows all removals.
//
// It takes about 2 bytes per scattered ID, and less if the IDs are adjacent. All methods are safe
// for concurrent use. Searches call lookUp, which waits for no lock.
type removedIDs struct {
	filter.Loading
	mu     sync.RWMutex
	ids    *roaring64.Bitmap
	empty  atomic.Bool // nothing was removed
	loaded bool        // the IDs that were stored before Open are in ids
	end    uint64      // position after the last removal among the recent writes
}

// removal is the answer of lookUp.
type removal int

const (
	notRemoved   removal = iota
	removed              // in the snapshot
	maybeRemoved         // the caller must read the snapshot
)

func newRemovedIDs() *removedIDs {
	r := &removedIDs{ids: roaring64.New(), loaded: true}
	r.empty.Store(true)
	return r
}

// load reads stored IDs in the background, and calls done with the error. Until all are read,
// lookUp returns maybeRemoved for every ID. load must be called before all other methods.
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

// add adds IDs whose removals are about to be applied. The first removal gets this position among
// the recent writes, and the others get the next positions.
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
