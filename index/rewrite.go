package index

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync/atomic"

	"github.com/neardup/neardup/internal/filter"
	"github.com/neardup/neardup/internal/plan"
	"github.com/neardup/neardup/internal/store"
)

// Frozen is what Rewrite gives to be packed: what was packed before, and the epoch that is frozen.
type Frozen struct {
	Store       *store.Store
	View        *store.View    // has keys and records besides
	Plan        *plan.Plan     // of the index
	Counters    store.Counters // in the moment of the view
	FilterBytes int64          // as Options of the index have it
	Found       bool           // it was frozen before, and what was written since is not in it
}

// Packed is what was made of it, ready to be taken.
type Packed struct {
	Rewrite *store.Rewrite
	Entries uint64                                   // fingerprints
	Filter  func(table int) iter.Seq2[[]byte, error] // the chunks of the filter of a table
	Close   func() error                             // of the Rewrite, whether it was taken or not
}

// Rewrite is for package compaction, which packs an index that is in use. What is live is frozen, pack makes new
// tables of it outside the index while everyone goes on, and these take the place of what they were made of in
// one step, for which writes wait. What was frozen by a Rewrite that came to no end is packed as it is. There
// is one Rewrite at a time; where there is nothing to do it does not call pack.
//
// Close ends it: ErrClosed. Nothing is lost or half done, however it ends; after an error the index goes on
// with what is frozen, until the next Rewrite.
func (x *Index) Rewrite(ctx context.Context, pack func(context.Context, Frozen) (Packed, error)) (err error) {
	if err := x.beginWrite(ctx); err != nil {
		return err
	}
	defer x.end()
	ctx, ended := x.whileOpen(ctx)
	defer ended(&err)
	select {
	case x.rewriting <- struct{}{}:
		defer func() { <-x.rewriting }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	found := x.state.Load().tables.Frozen() // only a Rewrite changes that
	if frozen, err := x.freeze(ctx, found); err != nil || !frozen {
		return err
	}
	view, counters, err := x.snapshot()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, view.Close()) }()
	packed, err := pack(ctx, Frozen{x.store, view.Frozen(), x.plan, counters, x.opts.FilterBytes, found})
	if err != nil {
		return err
	}
	return errors.Join(x.take(ctx, packed, view.Frozen()), packed.Close())
}

// freeze sees to it that an epoch is frozen, if there is anything to pack.
func (x *Index) freeze(ctx context.Context, found bool) (frozen bool, err error) {
	s := x.state.Load()
	if s.tables.Generation() > 0 {
		if live, err := x.store.HasLive(); err != nil || !live {
			return false, err
		}
	}
	if found {
		return true, nil
	}
	release, err := x.store.HoldCheckpoints(ctx)
	if err != nil {
		return false, err
	}
	defer release()
	next := &state{packed: s.packed, live: []*filter.Set{s.live[0], filter.NewSet(x.liveOptions())}, keys: s.keys}
	x.commitMu.Lock()
	defer x.commitMu.Unlock()
	if err := x.store.Freeze(); err != nil {
		next.written().Close()
		return false, err
	}
	clear(x.rewrites)
	next.tables = x.store.Tables()
	return true, x.setState(next)
}

// take lets the index go on with what was packed.
func (x *Index) take(ctx context.Context, p Packed, frozen *store.View) (err error) {
	filters := x.packedOptions()
	filters.Source = filter.Source{Expected: int64(p.Entries), Saved: p.Filter, All: settledStored(frozen), Done: x.warn("packed entries")}
	next := &state{packed: filter.NewSet(filters)}
	if err := next.packed.Wait(ctx); err != nil {
		next.packed.Close()
		return err
	}
	replaced, err := x.switchTo(ctx, next, p.Rewrite)
	if len(replaced) == 0 {
		replaced = []*filter.Set{next.packed}
	}
	for _, set := range replaced {
		set.Close()
	}
	return err
}

// switchTo makes a state with the tables of a Rewrite that of the index, and returns the filters that nobody needs any
// more: none if it could not. An error may come all the same.
func (x *Index) switchTo(ctx context.Context, next *state, r *store.Rewrite) (replaced []*filter.Set, err error) {
	x.commitMu.Lock()
	defer x.commitMu.Unlock()
	before := x.state.Load()
	if err := x.store.Take(ctx, r); err != nil {
		// They may be others all the same: those before are pinned to the moment before the attempt.
		same := &state{tables: x.store.Tables(), packed: before.packed, live: before.live, keys: before.keys}
		return nil, errors.Join(err, x.setState(same))
	}
	replaced = []*filter.Set{before.packed, before.live[0]}
	next.live, next.tables, next.keys = before.live[1:], x.store.Tables(), before.keys
	// Those of keys before are right, but have what is gone as well.
	keys, err := x.keyFilters(next.tables.PackedBefore())
	if err == nil {
		replaced, next.keys = append(replaced, before.keys), keys
	}
	return replaced, errors.Join(err, x.setState(next))
}

// settledStored yields the fingerprints that are packed or in a frozen epoch, of which some may have no documents any
// more.
func settledStored(frozen *store.View) iter.Seq2[uint64, error] {
	return func(yield func(uint64, error) bool) {
		for p, err := range frozen.Postings(0) {
			if !yield(p.Stored, err) || err != nil {
				return
			}
		}
	}
}

// state is what there is to look at between two steps of a compaction: the tables, and the filters that tell
// what need not be looked for in them. A step makes another one, under the commit lock. Whoever holds an older one
// goes on with it: it answers of the last moment before the step.
type state struct {
	tables *store.Tables
	packed *filter.Set   // of what the last compaction packed
	live   []*filter.Set // of what was written since, by epoch: the last takes what is written
	keys   *filter.Set   // of the hashes of keys

	nextID atomic.Uint64 // at the end of its time; 0: it is in use
}

// hold returns the state of this moment. Release of its tables must follow.
func (x *Index) hold() *state {
	for {
		s := x.state.Load()
		s.tables.Hold()
		if x.state.Load() == s {
			return s
		}
		s.tables.Release() // the index may have let go of it
	}
}

// setState puts a state, with its own hold of its tables, in the place of the one before. The commit lock must be held.
func (x *Index) setState(next *state) error {
	before := x.state.Swap(next)
	before.nextID.Store(x.counters.NextID)
	return before.tables.Release()
}

// written is the filters of what is written now.
func (s *state) written() *filter.Set { return s.live[len(s.live)-1] }

// mayBeLive reports whether there may be a live entry of a stored fingerprint, in any epoch.
func (s *state) mayBeLive(stored uint64) bool {
	for _, live := range s.live {
		if live.MayContain(stored) {
			return true
		}
	}
	return false
}

// sets are all its filters.
func (s *state) sets() []*filter.Set {
	return append(slices.Clone(s.live), s.packed, s.keys)
}
