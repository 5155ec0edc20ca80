package compaction

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync/atomic"

	"github.com/RoaringBitmap/roaring/v2/roaring64"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/store"
)

// merge writes the tables of an index from what it has and what is loaded.
type merge struct {
	s      *store.Store
	r      *store.Replacement
	plan   *index.Plan
	opts   *Options
	report *Report

	gone *roaring64.Bitmap // documents that are replaced, old ones and loaded ones; nil: none

	tables *tables
	old    uint64 // entries that the index had
	done   atomic.Uint64
	total  uint64
}

// loaded is a stored fingerprint and the ID of a document that comes with it.
type loaded = [2]uint64

// run merges the entries of the index with those that are loaded, in ascending order.
func (m *merge) run(ctx context.Context, loads iter.Seq2[[]loaded, error]) (err error) {
	fingerprints := m.s.Counters().Documents + m.report.Loaded
	m.total = fingerprints * uint64(len(m.plan.Tables))
	if m.tables, err = newTables(m.plan, m.r, int64(fingerprints), m.opts); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.tables.close()) }()
	v, err := m.s.View()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, v.Close()) }()

	next, stop := iter.Pull2(v.Entries(0))
	defer stop()
	old := oldEntries{m: m, next: next}
	if err := old.advance(); err != nil {
		return err
	}
	if loads != nil {
		if err := m.mergeLoads(ctx, &old, loads); err != nil {
			return err
		}
	}
	for old.valid {
		if err := m.add(ctx, old.posting); err != nil {
			return err
		}
		if err := old.advance(); err != nil {
			return err
		}
	}
	for i := range m.report.Tables {
		m.report.Tables[i].EntriesBefore = m.old
	}
	return m.tables.finish(ctx, func(n int) { m.tell(StageTables, n) })
}

// oldEntries steps through what is in the index.
type oldEntries struct {
	m       *merge
	next    func() (store.Posting, error, bool)
	valid   bool
	posting store.Posting
}

func (o *oldEntries) advance() error {
	p, err, ok := o.next()
	o.posting, o.valid = p, ok && err == nil
	if o.valid {
		o.m.old++
	}
	return err
}

// mergeLoads goes through the loads, and through what is in the index up to the
// last of them.
func (m *merge) mergeLoads(ctx context.Context, old *oldEntries, loads iter.Seq2[[]loaded, error]) error {
	var ids []uint64 // of the fingerprint at hand
	var at uint64
	flush := func() error {
		for old.valid && old.posting.Stored < at {
			if err := m.add(ctx, old.posting); err != nil {
				return err
			}
			if err := old.advance(); err != nil {
				return err
			}
		}
		if len(ids) == 0 {
			return nil
		}
		defer func() { ids = ids[:0] }()
		if old.valid && old.posting.Stored == at {
			old.posting.IDs = old.posting.IDs.Union(store.NewIDs(slices.Clone(ids)...))
			return nil
		}
		if len(ids) == 1 && m.gone == nil {
			m.tell(StageMerge, 1)
			return m.tables.addSingle(ctx, at, ids[0])
		}
		return m.add(ctx, store.Posting{Stored: at, IDs: store.NewIDs(slices.Clone(ids)...)})
	}
	for run, err := range loads {
		if err != nil {
			return err
		}
		for _, l := range run {
			if l[0] != at {
				if err := flush(); err != nil {
					return err
				}
				at = l[0]
			}
			ids = append(ids, l[1])
		}
	}
	return flush()
}

// add takes an entry, unless its documents are all gone.
func (m *merge) add(ctx context.Context, p store.Posting) error {
	m.tell(StageMerge, 1)
	if m.gone != nil {
		p.IDs = p.IDs.Without(store.IDsOf(m.gone))
	}
	if p.IDs.Len() == 0 {
		return nil
	}
	return m.tables.add(ctx, p.Stored, p.IDs)
}

// tellEvery is the number of entries between two calls of Progress.
const tellEvery = 1 << 16

func (m *merge) tell(stage string, entries int) {
	done := m.done.Add(uint64(entries))
	if done/tellEvery != (done-uint64(entries))/tellEvery {
		m.opts.progress(Progress{Stage: stage, Done: done, Total: max(m.total, done)})
	}
}
