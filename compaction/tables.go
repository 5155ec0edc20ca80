package compaction

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/neardup/neardup/index/filter"
	"github.com/neardup/neardup/internal/extsort"
	"github.com/neardup/neardup/internal/store"
	"golang.org/x/sync/errgroup"
)

// tables packs the tables of a plan from the entries of table 0 in ascending order:
// table 0 at once, the others once all of it is known.
type tables struct {
	*builder
	writer  *store.TableWriter       // of table 0
	filters []*filter.Prefix         // by table; nil for one that has none
	sorters []*extsort.Sorter[entry] // by table; none for table 0
	batch   []uint64                 // stored fingerprints that are not in the sorters yet
	entries []entry

	done  atomic.Uint64 // entries
	total uint64
}

// entry is a permuted fingerprint.
type entry = [1]uint64

// newTables begins the tables of all documents.
func (b *builder) newTables() (t *tables, err error) {
	n := len(b.plan.Tables)
	t = &tables{builder: b, filters: make([]*filter.Prefix, n), sorters: make([]*extsort.Sorter[entry], n)}
	fingerprints := b.s.Counters().Documents + b.report.Loaded // or fewer
	t.total = fingerprints * uint64(n)
	t.writer = b.r.Table(0)
	t.filters[0] = t.newFilter(0, int64(fingerprints))
	for i := 1; i < n; i++ {
		t.sorters[i] = extsort.New[entry](b.opts.sorting(b.r, n-1))
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
	if t.filters[0] != nil {
		t.filters[0].AddAll(t.batch)
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

// finish packs the other tables and saves the filters.
func (t *tables) finish(ctx context.Context) error {
	if err := errors.Join(t.flush(ctx), t.writer.Close()); err != nil {
		return err
	}
	t.writer = nil
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(2) // sorting goes on beside each
	for i := 1; i < len(t.sorters); i++ {
		group.Go(func() error { return t.pack(ctx, i) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for i, f := range t.filters {
		if f != nil {
			if err := saveFilter(t.r, i, f); err != nil {
				return err
			}
		}
	}
	return nil
}

// newFilter returns the filter of a table; nil if none is of use.
func (t *tables) newFilter(table int, fingerprints int64) *filter.Prefix {
	return filter.NewPacked(t.plan.Tables[table].Prefix, len(t.plan.Tables), fingerprints, t.opts.FilterBytes)
}

func (t *tables) pack(ctx context.Context, i int) (err error) {
	defer func() { err = errors.Join(err, t.sorters[i].Close()) }()
	filter := t.newFilter(i, t.sorters[i].Len())
	t.filters[i] = filter
	w := t.r.Table(i)
	defer func() { err = errors.Join(err, w.Close()) }()
	batch := make([]uint64, 0, batchLen)
	for run, err := range t.sorters[i].Sorted(ctx) {
		if err != nil {
			return err
		}
		for entries := range slices.Chunk(run, batchLen) {
			batch = batch[:0]
			for _, e := range entries {
				batch = append(batch, e[0])
				if err := w.Add(e[0]); err != nil {
					return err
				}
			}
			if filter != nil {
				filter.AddAll(batch)
			}
			t.tell(StageTables, len(batch))
		}
	}
	return nil
}

func (t *tables) tell(stage string, entries int) {
	done := t.done.Add(uint64(entries))
	if done/tellEvery != (done-uint64(entries))/tellEvery {
		t.opts.progress(Progress{Stage: stage, Done: done, Total: max(t.total, done)})
	}
}

// saveFilter writes the chunks of a filter.
func saveFilter(r *store.Rewrite, table int, f *filter.Prefix) error {
	var chunk []byte
	for c := range f.Chunks() {
		chunk = f.AppendChunk(chunk[:0], c)
		if err := r.AddFilterChunk(table, c, chunk); err != nil {
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
