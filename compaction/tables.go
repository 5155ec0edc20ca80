package compaction

import (
	"context"
	"errors"

	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/index/filter"
	"github.com/neardup/neardup/internal/extsort"
	"github.com/neardup/neardup/internal/store"
	"golang.org/x/sync/errgroup"
)

// tables packs the tables of a plan from the entries of table 0 in ascending order:
// table 0 at once, the others once all of it is known.
type tables struct {
	plan        *index.Plan
	replacement *store.Replacement
	filterBytes int64

	writer  *store.TableWriter
	filter  *filter.Prefix // may be nil
	filters []*filter.Prefix
	sorters []*extsort.Sorter[entry] // by table; none for table 0
	batch   []uint64                 // stored fingerprints that are not in the sorters yet
	entries []entry
}

// entry is a permuted fingerprint.
type entry = [1]uint64

// batchLen is the number of fingerprints that are handed on together.
const batchLen = 4096

// newTables begins tables that will hold up to so many fingerprints.
func newTables(plan *index.Plan, r *store.Replacement, fingerprints int64, o *Options) (t *tables, err error) {
	t = &tables{plan: plan, replacement: r, filterBytes: o.FilterBytes, filters: make([]*filter.Prefix, len(plan.Tables))}
	if t.writer, err = r.Table(0, store.BlockOptions{}); err != nil {
		return nil, err
	}
	if t.filter, err = plan.NewFilter(0, fingerprints, t.filterBytes); err != nil {
		return nil, err
	}
	t.filters[0] = t.filter
	t.sorters = make([]*extsort.Sorter[entry], len(plan.Tables))
	for i := 1; i < len(t.sorters); i++ {
		t.sorters[i] = extsort.New[entry](extsort.Options{
			MemoryBytes: o.memoryBytes() / 2 / int64(len(t.sorters)-1),
			Dir:         r.Dir(),
			FS:          o.fs(),
		})
	}
	return t, nil
}

// add takes the next entry of table 0.
func (t *tables) add(ctx context.Context, stored uint64, ids store.IDs) error {
	if err := t.writer.AddPosting(stored, ids); err != nil {
		return err
	}
	return t.note(ctx, stored)
}

// addSingle is add for one document, faster.
func (t *tables) addSingle(ctx context.Context, stored, id uint64) error {
	if err := t.writer.AddSingle(stored, id); err != nil {
		return err
	}
	return t.note(ctx, stored)
}

func (t *tables) note(ctx context.Context, stored uint64) error {
	t.batch = append(t.batch, stored)
	if len(t.batch) < batchLen {
		return nil
	}
	return t.flush(ctx)
}

// flush hands a batch on to the filter of table 0 and to the sorters of the others.
func (t *tables) flush(ctx context.Context) error {
	if t.filter != nil {
		t.filter.AddAll(t.batch)
	}
	for i := 1; i < len(t.sorters); i++ {
		t.entries = t.entries[:0]
		for _, stored := range t.batch {
			t.entries = append(t.entries, entry{t.plan.Tables[i].Permute(stored)})
		}
		if err := t.sorters[i].Add(ctx, t.entries); err != nil {
			return err
		}
	}
	t.batch = t.batch[:0]
	return ctx.Err()
}

// finish packs the other tables and saves the filters. done is told of each batch.
func (t *tables) finish(ctx context.Context, done func(entries int)) error {
	if err := errors.Join(t.flush(ctx), t.writer.Close()); err != nil {
		return err
	}
	t.writer = nil
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(2) // sorting goes on beside each
	for i := 1; i < len(t.sorters); i++ {
		group.Go(func() error { return t.pack(ctx, i, done) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return t.saveFilters()
}

func (t *tables) pack(ctx context.Context, i int, done func(entries int)) (err error) {
	defer func() { err = errors.Join(err, t.sorters[i].Close()) }()
	filter, err := t.plan.NewFilter(i, t.sorters[i].Len(), t.filterBytes)
	if err != nil {
		return err
	}
	t.filters[i] = filter
	w, err := t.replacement.Table(i, store.BlockOptions{})
	if err != nil {
		return err
	}
	batch := make([]uint64, 0, batchLen)
	for run, err := range t.sorters[i].Sorted(ctx) {
		if err != nil {
			return errors.Join(err, w.Close())
		}
		for len(run) > 0 {
			n := min(batchLen, len(run))
			batch = batch[:0]
			for _, e := range run[:n] {
				batch = append(batch, e[0])
				if err := w.Add(e[0]); err != nil {
					return errors.Join(err, w.Close())
				}
			}
			if filter != nil {
				filter.AddAll(batch)
			}
			run = run[n:]
			done(n)
		}
	}
	return w.Close()
}

func (t *tables) saveFilters() error {
	for i, f := range t.filters {
		if f == nil {
			continue
		}
		if err := saveFilter(t.replacement, i, f); err != nil {
			return err
		}
	}
	return nil
}

// close lets go of what finish did not come to.
func (t *tables) close() error {
	var err error
	if t.writer != nil {
		err = t.writer.Close()
	}
	for _, s := range t.sorters {
		if s != nil {
			err = errors.Join(err, s.Close())
		}
	}
	return err
}
