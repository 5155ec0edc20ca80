package index

import (
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/neardup/neardup/internal/filter"
	"github.com/neardup/neardup/internal/plan"
	"github.com/neardup/neardup/internal/rewrite"
	"github.com/neardup/neardup/store"
)

func init() {
	rewrite.Index = func(ctx context.Context, x any, pack rewrite.Pack) error { return x.(*Index).repack(ctx, pack) }
}

// repack packs the entries that were written before the call. It first freezes the live epoch. If an
// earlier call was interrupted, its frozen epoch is packed first, by itself. There is one repack at a
// time, and Close ends it with ErrClosed. After an error no document is lost: the index goes on with
// what is frozen until the next repack.
func (x *Index) repack(ctx context.Context, pack rewrite.Pack) (err error) {
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
	for again := true; again && err == nil; {
		again = x.state.Load().tables.Frozen() // only a repack changes that
		err = x.packFrozen(ctx, again, pack)
	}
	return err
}

// packFrozen packs the frozen epoch, and freezes one before if none was found frozen.
func (x *Index) packFrozen(ctx context.Context, found bool, pack rewrite.Pack) (err error) {
	view, counters, err := x.freeze(ctx, found)
	if err != nil || view == nil {
		return err
	}
	defer func() { err = errors.Join(err, view.Close()) }()
	frozen := view.Frozen()
	packed, err := pack(ctx, rewrite.Frozen{Store: x.store, View: frozen, Plan: x.Plan(), Counters: counters, FilterBytes: x.opts.FilterBytes})
	if err != nil {
		return err
	}
	return errors.Join(x.take(ctx, packed, frozen), packed.Close())
}

// freeze returns a view of a frozen epoch, or nil if there is nothing to pack.
func (x *Index) freeze(ctx context.Context, found bool) (v *store.View, counters store.Counters, err error) {
	if found {
		return x.snapshot()
	}
	s := x.state.Load()
	if s.tables.Generation() > 0 {
		if live, err := x.epochsWithEntries(); err != nil || !slices.Contains(live, true) {
			return nil, counters, err
		}
	}
	release, err := x.store.HoldCheckpoints(ctx)
	if err != nil {
		return nil, counters, err
	}
	defer release()
	next := &state{plan: s.plan, packed: s.packed, live: append(slices.Clip(s.live), filter.NewSet(x.liveOptions(s.plan))), keys: s.keys}
	x.commitMu.Lock()
	defer x.commitMu.Unlock()
	if err := x.store.Freeze(); err != nil {
		next.written().Close()
		return nil, counters, err
	}
	clear(x.rewrites)
	next.tables = x.store.Tables()
	x.setState(next)
	v, err = x.store.View()
	return v, x.counters, err
}

// take replaces the packed and the frozen entries by what was packed.
func (x *Index) take(ctx context.Context, p rewrite.Packed, frozen *store.View) (err error) {
	filters := x.packedOptions(x.Plan())
	filters.Source = filter.Source{Expected: int64(p.Entries), Saved: p.Filter, All: settledStored(frozen), Done: x.warn("packed entries")}
	next := &state{plan: x.Plan(), packed: filter.NewSet(filters)}
	if err := next.packed.Wait(ctx); err != nil {
		next.packed.Close()
		return err
	}
	replaced, err := x.switchTo(ctx, next, p)
	if len(replaced) == 0 {
		replaced = []*filter.Set{next.packed}
	}
	for _, set := range replaced {
		set.Close()
	}
	return err
}

// switchTo makes a state with the tables of a Rewrite that of the index, and returns the filters that
// are no longer needed: none if it could not. It may return an error in both cases.
func (x *Index) switchTo(ctx context.Context, next *state, p rewrite.Packed) (replaced []*filter.Set, err error) {
	x.commitMu.Lock()
	defer x.commitMu.Unlock()
	before := x.state.Load()
	if err := x.store.Take(ctx, p.Rewrite); err != nil {
		// They may be others all the same: those before are pinned to the moment before the attempt.
		same := &state{plan: before.plan, tables: x.store.Tables(), packed: before.packed, live: before.live, keys: before.keys}
		x.setState(same)
		return nil, err
	}
	replaced = []*filter.Set{before.packed, before.live[0]}
	next.live, next.tables, next.keys = slices.Clone(before.live[1:]), x.store.Tables(), before.keys
	// The filters of keys before are right, but have deleted keys as well.
	keys, err := x.keyFilters(next.tables.PackedBefore(), nil)
	if keys != nil {
		replaced, next.keys = append(replaced, before.keys), keys
	}
	x.setState(next)
	return replaced, err
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
	plan   *plan.Plan
	tables *store.Tables
	packed *filter.Set   // of what the last compaction packed
	live   []*filter.Set // of what was written since, by epoch: the last takes what is written
	keys   *filter.Set   // of the hashes of keys
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
func (x *Index) setState(next *state) { x.state.Swap(next).tables.Release() }

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
	sets := []*filter.Set{s.packed, s.keys}
	for _, live := range s.live {
		sets = append(sets, live)
	}
	return sets
}
