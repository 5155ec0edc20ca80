package compaction

import (
	"context"
	"errors"
	"iter"

	"github.com/RoaringBitmap/roaring/v2/roaring64"
	"github.com/neardup/neardup/internal/extsort"
	"github.com/neardup/neardup/internal/plan"
	"github.com/neardup/neardup/store"
)

// builder builds the next state of an index: the stored documents and added documents. Run
// adds none, Load adds the given documents, and Repair adds the readable documents. The index
// does not change before finish, which installs the new state in one step.
type builder struct {
	ctx context.Context
	s   *store.Store
	// the entries to pack; nil: all entries of the store, which has no other writer
	from   *store.View
	view   *store.View // from, or a view of all entries; valid during write
	r      *store.Rewrite
	plan   *plan.Plan
	opts   *Options
	report *Report

	before   store.Counters // of the index
	first    uint64         // ID of the first added document
	counters store.Counters // of the next state
	added    *extsort.Sorter[added]
	keys     *extsort.Sorter[addedKey]
	replaced *roaring64.Bitmap // documents that a later one with the same key replaces

	keyFilter filling    // of all keys of the next state
	filters   []*filling // by table
}

// added is the stored fingerprint and the ID of an added document.
type added = [2]uint64

func newBuilder(
	ctx context.Context, s *store.Store, plan *plan.Plan, opts *Options, report *Report,
) (*builder, error) {
	r, err := s.NewRewrite(len(plan.Tables))
	if err != nil {
		return nil, err
	}
	counters := s.Meta().Counters
	return &builder{
		ctx: ctx, s: s, r: r, plan: plan, opts: opts, report: report,
		before: counters, first: counters.NextID, counters: counters,
		added:    extsort.New[added](opts.sorting(r, 1)),
		keys:     extsort.New[addedKey](opts.sorting(r, 1)),
		replaced: roaring64.New(),
	}, nil
}

// add adds a document. The caller must add documents with a record in ascending order of their IDs.
// A document replaces the earlier documents with its key.
func (b *builder) add(record store.Record) error {
	id := record.ID
	b.counters.NextID = max(b.counters.NextID, id+1)
	b.counters.Documents++
	b.report.Loaded++
	stored := store.Stored(record.Fingerprint, record.Scope)
	if err := b.added.Add(added{stored, id}); err != nil {
		return err
	}
	if b.report.Loaded%tellEvery == 0 {
		b.opts.progress(Progress{Stage: StageRead, Done: b.report.Loaded})
	}
	if record.Bare() && record.Time == 0 {
		b.counters.Bare++
		return nil
	}
	if err := b.r.AddRecord(record); err != nil || record.Key == "" {
		return err
	}
	return b.addKey(id, record.Key)
}

// replan changes the plan before anything is written.
func (b *builder) replan(plan *plan.Plan) {
	b.plan = plan
	b.r.SetTables(len(plan.Tables))
}

// finish writes the next state and installs it.
func (b *builder) finish() error {
	if err := b.write(); err != nil {
		return err
	}
	if err := b.r.Commit(b.ctx, b.plan.String(), b.counters); err != nil {
		return err
	}
	b.report.Documents, b.report.Plan = b.counters.Documents, b.plan.String()
	return nil
}

// write writes the next state.
func (b *builder) write() (err error) {
	if b.view = b.from; b.view == nil {
		if b.view, err = b.s.View(); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, b.view.Close()) }()
	}
	for _, write := range []func() error{b.writeKeys, b.removeReplaced, b.writeTables,
		b.saveKeyFilter} {
		if err := write(); err != nil {
			return err
		}
	}
	return nil
}

// close releases the resources of the builder and removes the files that were not installed. A
// second close does nothing.
func (b *builder) close() error {
	return errors.Join(b.added.Close(), b.keys.Close(), b.r.Close())
}

// removeReplaced removes the records of replaced documents.
func (b *builder) removeReplaced() error {
	b.report.Replaced = b.replaced.GetCardinality()
	b.counters.Documents -= b.report.Replaced
	added := false
	for it := b.replaced.Iterator(); it.HasNext(); {
		id := it.Next()
		if added = id >= b.first; added {
			break
		}
		if err := b.r.DeleteRecord(id); err != nil {
			return err
		}
	}
	if !added {
		return nil
	}
	return b.r.WithdrawRecords(b.ctx, b.replaced)
}

// writeTables writes all tables from the entries of table 0: the stored entries, merged with
// the added entries, in ascending order.
func (b *builder) writeTables() (err error) {
	t := b.newTables()
	defer func() { err = errors.Join(err, t.close()) }()
	runs, stop := iter.Pull2(b.added.Sorted(b.ctx))
	defer stop()
	next := addedEntries{runs: runs}
	if err := next.advance(); err != nil {
		return err
	}
	gone, err := b.view.Removed()
	if err != nil {
		return err
	}
	gone.Or(b.replaced)
	old := uint64(0)
	for p, err := range b.view.Entries(0) {
		if old%batchLen == 0 && err == nil {
			err = b.ctx.Err()
		}
		if err != nil {
			return err
		}
		old++
		for next.ok && next.stored < p.Stored {
			if err := b.writeAdded(t, &next); err != nil {
				return err
			}
		}
		both := next.ok && next.stored == p.Stored
		if both {
			p.IDs = p.IDs.Union(next.posting().IDs)
		}
		if err := t.add(p, gone); err != nil {
			return err
		}
		if both {
			if err := next.advance(); err != nil {
				return err
			}
		}
	}
	for next.ok {
		if err := b.writeAdded(t, &next); err != nil {
			return err
		}
	}
	return t.finish()
}

// writeAdded writes a fingerprint that only added documents have.
func (b *builder) writeAdded(t *tables, next *addedEntries) error {
	if err := t.add(next.posting(), b.replaced); err != nil {
		return err
	}
	return next.advance()
}

// addedEntries iterates over the added fingerprints, in ascending order, with the IDs of their
// documents.
type addedEntries struct {
	runs   func() ([]added, error, bool)
	run    []added // the rest of the run
	ok     bool    // stored and ids are the current entry; false at the end
	stored uint64
	ids    []uint64
}

// posting returns the current entry, which is valid until the next call of advance.
func (a *addedEntries) posting() store.Posting {
	return store.Posting{Stored: a.stored, IDs: store.NewIDs(a.ids...)}
}

func (a *addedEntries) advance() error {
	a.ok, a.ids = false, a.ids[:0]
	for {
		for i, e := range a.run {
			if a.ok && e[0] != a.stored {
				a.run = a.run[i:]
				return nil
			}
			a.ok, a.stored = true, e[0]
			a.ids = append(a.ids, e[1])
		}
		run, err, more := a.runs()
		a.run = run
		if err != nil || !more {
			return err
		}
	}
}
