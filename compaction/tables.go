package compaction

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync/atomic"

	"github.com/RoaringBitmap/roaring/v2/roaring64"
	"github.com/neardup/neardup/internal/extsort"
	"github.com/neardup/neardup/internal/filter"
	"github.com/neardup/neardup/store"
	"golang.org/x/sync/errgroup"
)

// tables packs all tables of a plan. Its add packs the entries of table 0, in ascending order. Its
// finish sorts and packs the entries of the other tables.
type tables struct {
	*builder
	writer  *store.TableWriter       // of table 0
	sorters []*extsort.Sorter[entry] // by table; none for table 0

	done  atomic.Uint64 // entries
	total uint64        // entries; an upper bound until table 0 is complete
}

// entry is a permuted fingerprint.
type entry = [1]uint64

// newTables returns empty tables, and sets the filters of b.
func (b *builder) newTables() *tables {
	n := len(b.plan.Tables)
	t := &tables{builder: b, writer: b.r.Table(0), sorters: make([]*extsort.Sorter[entry], n)}
	b.filters = make([]*filling, n)
	fingerprints := b.before.Documents + b.report.Loaded
	t.total = fingerprints * uint64(n)
	t.filters[0] = t.newFilter(0, fingerprints)
	for i := 1; i < n; i++ {
		t.sorters[i] = extsort.New[entry](b.opts.sorting(b.r, n-1))
	}
	return t
}

func (t *tables) newFilter(table int, fingerprints uint64) *filling {
	return &filling{Prefix: filter.NewPacked(t.plan.Tables[table].Prefix, len(t.plan.Tables),
		int64(fingerprints), t.opts.FilterBytes)}
}

// add adds the next entry of table 0, without the IDs in gone. It omits an entry without other IDs.
func (t *tables) add(p store.Posting, gone *roaring64.Bitmap) error {
	ids := p.IDs.WithoutAll(gone)
	if ids.Empty() {
		return nil
	}
	if err := t.writer.AddPosting(p.Stored, ids); err != nil {
		return err
	}
	t.tell(StageMerge, 1)
	t.filters[0].add(p.Stored)
	for i := 1; i < len(t.sorters); i++ {
		if err := t.sorters[i].Add(entry{t.plan.Tables[i].Permute(p.Stored)}); err != nil {
			return err
		}
	}
	return nil
}

// finish packs the other tables and saves the filters.
func (t *tables) finish() error {
	if err := t.writer.Close(); err != nil {
		return err
	}
	t.writer = nil
	t.total = t.done.Load() * uint64(len(t.filters)) // done is the number of entries per table
	group, ctx := errgroup.WithContext(t.ctx)
	group.SetLimit(t.opts.packers())
	for i := 1; i < len(t.sorters); i++ {
		group.Go(func() error { return t.pack(ctx, i) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for i, f := range t.filters {
		if err := f.save(t.r, i); err != nil {
			return err
		}
	}
	return nil
}

// pack packs table i, one of the other tables.
func (t *tables) pack(ctx context.Context, i int) (err error) {
	sorter := t.sorters[i]
	t.filters[i] = t.newFilter(i, uint64(sorter.Len()))
	w := t.r.Table(i)
	defer func() { err = errors.Join(err, w.Close(), sorter.Close()) }()
	for run, err := range sorter.Sorted(ctx) {
		if err != nil {
			return err
		}
		for entries := range slices.Chunk(run, tellEvery) {
			for _, e := range entries {
				if err := w.Add(e[0]); err != nil {
					return err
				}
				t.filters[i].add(e[0])
			}
			t.tell(StageTables, len(entries))
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

// close closes the writer and the sorters if finish did not.
func (t *tables) close() (err error) {
	if t.writer != nil {
		err = t.writer.Close()
	}
	for _, s := range t.sorters[1:] {
		err = errors.Join(err, s.Close())
	}
	return err
}

// batchLen is the number of entries that are added to a filter together.
const batchLen = 4096

// filling is a filter to which entries are added in batches.
type filling struct {
	*filter.Prefix // nil if a filter is useless
	batch          []uint64
}

func (f *filling) add(entry uint64) {
	if f.Prefix == nil {
		return
	}
	if f.batch = append(f.batch, entry); len(f.batch) == batchLen {
		f.flush()
	}
}

func (f *filling) flush() {
	f.AddAll(f.batch)
	f.batch = f.batch[:0]
}

// save writes the chunks of the filter of a table.
func (f *filling) save(r *store.Rewrite, table int) error {
	if f.Prefix == nil {
		return nil
	}
	f.flush()
	n := 0
	for chunk := range f.chunks() {
		if err := r.AddFilterChunk(table, n, chunk); err != nil {
			return err
		}
		n++
	}
	return nil
}

// chunks yields the chunks of the filter, each of which is valid until the next one.
func (f *filling) chunks() iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		if f.Prefix == nil {
			return
		}
		var chunk []byte
		for c := range f.Chunks() {
			if chunk = f.AppendChunk(chunk[:0], c); !yield(chunk, nil) {
				return
			}
		}
	}
}
