package index

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/neardup/neardup/internal/filter"
	"github.com/neardup/neardup/internal/plan"
	"github.com/neardup/neardup/internal/rewrite"
	"github.com/neardup/neardup/store"
)

// Rewrite is for package compaction alone, whose Compact and LoadInto are what others call: its types are internal, and
// may change at any time. It packs an index that is in use. What is live is frozen, pack makes new
// tables of it outside the index while everyone goes on, and these take the place of what they were made of in
// one step, for which writes wait. What was frozen by a Rewrite that came to no end is packed first, by itself. There
// is one Rewrite at a time; where there is nothing to do it does not call pack.
//
// Where to is neither nil nor the plan of the index, the index has it from the step on. What is written meanwhile is written under
// both.
//
// Where a is not nil and Read tells of a document at least, the IDs of what it adds are reserved in the
// moment of Frozen, and it is stored in the step. A key that was written in between is not theirs: the later
// document stays.
//
// Close ends it: ErrClosed. Nothing is lost or half done, however it ends; after an error the index goes on
// with what is frozen, until the next Rewrite.
func (x *Index) Rewrite(ctx context.Context, to *plan.Plan, a *rewrite.Addition, pack func(context.Context, rewrite.Frozen) (rewrite.Packed, error)) (err error) {
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
	if to, err = comingPlan(x.Plan(), to); err != nil {
		return err
	}
	for again := true; again && err == nil; {
		again = x.state.Load().tables.Frozen() // only a Rewrite changes that
		switch {
		case again:
			err = x.rewrite(ctx, true, nil, nil, pack)
		case a == nil:
			err = x.rewrite(ctx, false, to, nil, pack)
		default:
			err = x.rewriteWith(ctx, to, a, pack)
		}
	}
	return err
}

// comingPlan returns the plan that an index is to have in the place of another one; nil if it keeps that.
func comingPlan(has, to *plan.Plan) (*plan.Plan, error) {
	if to == nil {
		return nil, nil
	}
	p, err := plan.New(to.MaxDistance, to.Tables...) // in the form that is recorded
	if err != nil || p.String() == has.String() {
		return nil, err
	}
	if most := max(len(has.Tables), len(p.Tables)); most > store.ComingTables {
		return nil, fmt.Errorf("%w: %d tables, and a plan is changed from or to at most %d", ErrPlan, most, store.ComingTables)
	}
	return p, nil
}

func (x *Index) rewriteWith(ctx context.Context, to *plan.Plan, a *rewrite.Addition, pack func(context.Context, rewrite.Frozen) (rewrite.Packed, error)) (err error) {
	defer func() { err = errors.Join(err, a.Close()) }()
	documents, err := a.Read(ctx, x.store, cmp.Or(to, x.Plan()))
	if err != nil || documents == 0 {
		return err
	}
	return x.rewrite(ctx, false, to, &loading{documents: documents, keys: make(map[uint64]struct{})}, pack)
}

// rewrite packs what is frozen, under the plan that is to come, if any is, and with what is loaded, if anything is.
func (x *Index) rewrite(ctx context.Context, found bool, to *plan.Plan, l *loading, pack func(context.Context, rewrite.Frozen) (rewrite.Packed, error)) (err error) {
	defer x.loads(func() { x.loading, x.coming = nil, nil })
	view, counters, err := x.freeze(ctx, found, to, l)
	if err != nil || view == nil {
		return err
	}
	defer func() { err = errors.Join(err, view.Close()) }()
	f := rewrite.Frozen{Store: x.store, View: view.Frozen(), Plan: cmp.Or(to, x.Plan()), Counters: counters, FilterBytes: x.opts.FilterBytes}
	if l != nil {
		f.First, f.Added = l.ids.first, l.added
		f.Loads = func(may func(uint64) bool) { x.loads(func() { l.narrow(may) }) }
	}
	packed, err := pack(ctx, f)
	if err != nil {
		return err
	}
	return errors.Join(x.take(ctx, f.Plan, packed, view.Frozen()), packed.Close())
}

// loading is documents on their way into the index. It is used under the commit lock.
type loading struct {
	documents uint64
	ids       idRange // that are reserved for them; nobody else may take one for a document
	added     time.Time
	keys      map[uint64]struct{}    // the hashes of keys that changed since, as far as may lets them pass
	may       func(hash uint64) bool // whether they may have a key of a hash; nil: not known
}

// loads changes what is loading or coming, under the commit lock.
func (x *Index) loads(change func()) {
	x.commitMu.Lock()
	defer x.commitMu.Unlock()
	change()
}

func (l *loading) narrow(may func(hash uint64) bool) {
	l.may = may
	maps.DeleteFunc(l.keys, func(hash uint64, _ struct{}) bool { return !may(hash) })
}

// touch notes a change of the documents of a hash.
func (l *loading) touch(hash uint64) {
	if l.may == nil || l.may(hash) {
		l.keys[hash] = struct{}{}
	}
}

// reserve gives what is loading its IDs, and a time.
func (x *Index) reserve(l *loading) func(*store.Batch) {
	if l == nil {
		return nil
	}
	counters, second := x.counters, x.opts.second() // a panic of Now comes before anything is frozen
	l.ids = idRange{counters.NextID, counters.NextID + l.documents}
	l.added = time.Unix(int64(second), 0).UTC()
	counters.NextID = l.ids.end
	return func(b *store.Batch) {
		b.SetClock(l.ids.first, second)
		b.SetCounters(counters)
	}
}

// freeze sees to it that an epoch is frozen, and returns a view of that moment, or of a later one where that was found; nil
// if there is nothing to pack.
func (x *Index) freeze(ctx context.Context, found bool, to *plan.Plan, l *loading) (v *store.View, counters store.Counters, err error) {
	if found { // it may be empty, of a change of the plan that a crash ended
		v, counters, _, err = x.snapshot()
		return v, counters, err
	}
	s := x.state.Load()
	if s.tables.Generation() > 0 && to == nil && l == nil {
		if live, err := x.epochsWithEntries(); err != nil || !slices.Contains(live, true) {
			return nil, counters, err
		}
	}
	release, err := x.store.HoldCheckpoints(ctx)
	if err != nil {
		return nil, counters, err
	}
	defer release()
	plans := []*plan.Plan{s.plan}
	if to != nil {
		plans = append(plans, to)
	}
	next := &state{plan: s.plan, packed: s.packed, live: append(slices.Clip(s.live), liveFilters{Set: filter.NewSet(x.liveOptions(plans...))}), keys: s.keys}
	x.commitMu.Lock()
	defer x.commitMu.Unlock()
	if err := x.store.Freeze(x.reserve(l)); err != nil {
		next.written().Close()
		return nil, counters, err
	}
	clear(x.rewrites)
	next.tables = x.store.Tables()
	x.setState(next)
	x.coming = to
	if l != nil {
		x.loading, x.counters.NextID = l, l.ids.end
		x.lastSecond = noSecond // what comes next has an entry of its own
		x.nextID.Store(l.ids.end)
	}
	v, err = x.store.View()
	return v, x.counters, err
}

// take lets the index go on with what was packed under a plan.
func (x *Index) take(ctx context.Context, of *plan.Plan, p rewrite.Packed, frozen *store.View) (err error) {
	filters := x.packedOptions(of)
	all := settledStored(frozen)
	if p.Added != nil { // what is loaded cannot be had before the step
		all = func(yield func(uint64, error) bool) { yield(0, errNotStored) }
		filters.Near = 0
	}
	filters.Source = filter.Source{Expected: int64(p.Entries), Saved: p.Filter, All: all, Done: x.warn("packed entries")}
	next := &state{plan: of, packed: filter.NewSet(filters)}
	if err := next.packed.Wait(ctx); err != nil {
		next.packed.Close()
		return err
	}
	replaced, err := x.switchAlone(ctx, next, p, frozen)
	if len(replaced) == 0 {
		replaced = []*filter.Set{next.packed}
	}
	for _, set := range replaced {
		set.Close()
	}
	return err
}

var errNotStored = errors.New("none could be saved, and the documents are not stored yet")

// switchAlone is switchTo without any change under way: what one has seen of a key, and is to write, or within which
// distance it has looked, would be of the time before the step. Where nothing is loaded and the plan stays they go on.
func (x *Index) switchAlone(ctx context.Context, next *state, p rewrite.Packed, frozen *store.View) (replaced []*filter.Set, err error) {
	if p.Added == nil && next.plan == x.Plan() {
		return x.switchTo(ctx, next, p, frozen)
	}
	release, err := x.store.HoldCheckpoints(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	all := &pendingWrite{all: true}
	if err := x.enter(ctx, all); err != nil {
		return nil, err
	}
	defer x.pending.leave(all)
	return x.switchTo(ctx, next, p, frozen)
}

// switchTo makes a state with the tables of a Rewrite that of the index, and returns the filters that nobody needs any
// more: none if it could not. An error may come all the same.
func (x *Index) switchTo(ctx context.Context, next *state, p rewrite.Packed, frozen *store.View) (replaced []*filter.Set, err error) {
	x.commitMu.Lock()
	defer x.commitMu.Unlock()
	before := x.state.Load()
	settle, err := x.addLate(p, frozen)
	if err != nil {
		return nil, err
	}
	if err := x.store.Take(ctx, p.Rewrite, settle); err != nil {
		// They may be others all the same: those before are pinned to the moment before the attempt.
		same := &state{plan: before.plan, tables: x.store.Tables(), packed: before.packed, live: before.live, keys: before.keys}
		x.setState(same)
		return nil, err
	}
	replaced = []*filter.Set{before.packed, before.live[0].Set}
	next.live, next.tables, next.keys = slices.Clone(before.live[1:]), x.store.Tables(), before.keys
	if x.coming != nil {
		x.coming, next.live[0].first = nil, len(before.plan.Tables)
	}
	if p.Added != nil {
		x.loading = nil // whoever sees what is loaded may delete it, while the files of the load still go
		p.Added.Taken()
	}
	// Those of keys before are right where nothing was loaded, but have what is gone as well.
	keys, err := x.keyFilters(next.tables.PackedBefore(), nil)
	if err != nil && p.Added != nil {
		keys = filter.NewSet(filter.Options{}) // it says yes to all
	}
	if keys != nil {
		replaced, next.keys = append(replaced, before.keys), keys
	}
	x.setState(next)
	return replaced, err
}

// addLate adds to a Rewrite what is known of loaded documents now, and returns what is to follow the step. The commit lock
// must be held.
func (x *Index) addLate(p rewrite.Packed, frozen *store.View) (settle func() error, err error) {
	if p.Added == nil {
		return nil, nil
	}
	var late []store.LateKey
	for _, hash := range slices.Sorted(maps.Keys(x.loading.keys)) {
		there, err := x.store.KeyIDs(hash)
		if err != nil {
			return nil, err
		}
		before, err := frozen.KeyIDs(hash)
		if err != nil {
			return nil, err
		}
		late = append(late, store.LateKey{Hash: hash, There: there, Gone: before.Without(there)})
	}
	counters := x.counters
	counters.Documents += p.Added.Documents
	counters.Bare += p.Added.Bare
	if err := p.Rewrite.AddLate(counters, late); err != nil {
		return nil, err
	}
	return func() error {
		x.oldest = min(x.oldest, p.Added.Oldest)
		if p.Added.Records {
			x.firstRecord.Store(min(x.firstRecord.Load(), x.loading.ids.first))
		}
		return x.settle(late, counters)
	}, nil
}

// settle sees to the keys that were written while documents with keys of the same hashes were loaded: those that came
// since keep them, and what was loaded for these is gone before anyone has seen it. It reads the newest state
// of the store, and is done at once or, after a crash, when the index is opened again.
func (x *Index) settle(late []store.LateKey, counters store.Counters) error {
	if len(late) == 0 {
		x.counters = counters
		return nil
	}
	batch := x.store.NewBatch()
	var lost []uint64 // the stored fingerprints of what is gone
	for i := range late {
		stored, err := x.settleKey(batch, &late[i], &counters)
		if err != nil {
			return errors.Join(err, batch.Close())
		}
		lost = append(lost, stored...)
	}
	batch.Settled()
	batch.SetCounters(counters)
	if s := x.state.Load(); s != nil { // else the filters begin with what is written here
		s.written().Add(lost...)
	}
	finish, err := x.store.Apply(batch, false)
	if err == nil {
		x.counters = counters
		err = finish()
	}
	return err
}

// settleKey settles a hash: of the documents that are loaded, it removes those that have a key of one that came since, and
// writes the IDs of the others, of which the step knew only those that were frozen.
func (x *Index) settleKey(batch *store.Batch, late *store.LateKey, counters *store.Counters) (lost []uint64, err error) {
	packed, err := x.store.KeyIDs(late.Hash)
	if err != nil {
		return nil, err
	}
	loaded := packed.Without(late.There).Without(late.Gone)
	if loaded.Empty() { // the hash is that of another key
		return nil, nil
	}
	since := late.There.Without(packed)
	ids := late.There.Without(since)
	keys := make(map[string]bool)
	for id := range since.All() {
		r, found, err := x.store.Record(id)
		if err != nil {
			return nil, err
		}
		if found { // else the step has replaced it
			ids, keys[r.Key] = ids.With(id), true
		}
	}
	for id := range loaded.All() {
		r, _, err := x.store.Record(id)
		if err != nil {
			return nil, err
		}
		if !keys[r.Key] {
			ids = ids.With(id)
			continue
		}
		stored := store.Stored(r.Fingerprint, r.Scope)
		lost = append(lost, stored)
		batch.ChangePosting(stored, store.IDs{}, store.NewIDs(id))
		batch.DeleteRecord(id)
		counters.Documents--
	}
	counters.Documents += uint64(late.Gone.Without(packed).Len()) // the step has counted them as replaced
	batch.SetKeyIDs(late.Hash, ids)
	return lost, nil
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
	live   []liveFilters // of what was written since, by epoch: the last takes what is written
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
func (s *state) written() *filter.Set { return s.live[len(s.live)-1].Set }

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
		sets = append(sets, live.Set)
	}
	return sets
}
