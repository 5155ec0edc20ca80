package index

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"

	"github.com/neardup/neardup/index/filter"
	"github.com/neardup/neardup/index/plan"
	"github.com/neardup/neardup/internal/store"
)

// NewFilter returns an empty prefix filter for a table of the plan when so many
// fingerprints are packed, within its share of filterBytes (Options.FilterBytes), or
// nil if it would let nearly everything pass.
func NewFilter(p *plan.Plan, table int, fingerprints, filterBytes int64) (*filter.Prefix, error) {
	t, budget := &p.Tables[table], packedFilterBudget(p, filterBytes)
	if t.Prefix < 64 && fingerprints > 2<<t.Prefix {
		return nil, nil
	}
	f, err := filter.NewPrefix(t.Prefix, fingerprints, budget)
	if err != nil || f.PassesAll() {
		return nil, err
	}
	return f, nil
}

// packedFilterBudget returns what the filter of a packed table may take: half of
// filterBytes is for all of them.
func packedFilterBudget(p *plan.Plan, filterBytes int64) int64 {
	return (&Options{FilterBytes: filterBytes}).filterBytes() / 2 / int64(len(p.Tables))
}

// packedFilters are the prefix filters of the packed tables. They are loaded in the
// background, as they may take gigabytes; until then everything may be there.
type packedFilters struct {
	plan    *plan.Plan
	filters []atomic.Pointer[filter.Prefix]
	cancel  context.CancelFunc
	done    sync.WaitGroup
}

// loadPackedFilters begins to load the filters that compaction saved and, where there
// is none that can be used, makes one of the table. close must be called.
func loadPackedFilters(s *store.Store, p *plan.Plan, filterBytes int64, warn func(string, error)) *packedFilters {
	ctx, cancel := context.WithCancel(context.Background())
	f := &packedFilters{plan: p, filters: make([]atomic.Pointer[filter.Prefix], len(p.Tables)), cancel: cancel}
	if s.Generation() == 0 {
		return f
	}
	f.done.Go(func() {
		for i := range f.filters {
			filter, err := f.load(ctx, s, i, filterBytes)
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				warn(fmt.Sprintf("prefix filter of table %d", i), err)
				continue
			}
			f.filters[i].Store(filter)
		}
	})
	return f
}

func (f *packedFilters) load(ctx context.Context, s *store.Store, table int, filterBytes int64) (*filter.Prefix, error) {
	empty, err := NewFilter(f.plan, table, int64(s.PackedEntries()), filterBytes)
	if err != nil || empty == nil {
		return nil, err
	}
	saved, err := filter.LoadPrefix(empty.Prefix(), packedFilterBudget(f.plan, filterBytes), untilDone(ctx, s.FilterChunks(table)))
	if err == nil || !errors.Is(err, filter.ErrUnusable) {
		return saved, err
	}
	return empty, fillFilter(ctx, empty, s, table)
}

// fillFilter adds what is in a table to a filter.
func fillFilter(ctx context.Context, filter *filter.Prefix, s *store.Store, table int) error {
	v, err := s.View()
	if err != nil {
		return err
	}
	var fps []uint64
	for b, err := range v.PackedBlocks(table) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return errors.Join(err, v.Close())
		}
		fps = b.AppendTo(fps[:0])
		filter.AddAll(fps)
	}
	return v.Close()
}

func untilDone(ctx context.Context, chunks iter.Seq2[[]byte, error]) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for chunk, err := range chunks {
			if err == nil {
				err = ctx.Err()
			}
			if !yield(chunk, err) || err != nil {
				return
			}
		}
	}
}

// appendMaybe appends the flips within the radius of a table that lead to prefixes
// which packed entries may have.
func (f *packedFilters) appendMaybe(dst []uint64, table int, permuted uint64) []uint64 {
	t := &f.plan.Tables[table]
	if filter := f.filters[table].Load(); filter != nil {
		return filter.AppendCandidates(dst, permuted, t.Radius)
	}
	return filter.AppendAll(dst, t.Prefix, t.Radius)
}

// mayContain reports whether a fingerprint may be packed.
func (f *packedFilters) mayContain(stored uint64) bool {
	for i := range f.filters {
		if filter := f.filters[i].Load(); filter != nil && !filter.MayContain(f.plan.Tables[i].Permute(stored)) {
			return false
		}
	}
	return true
}

// bytes returns the memory that the filters take.
func (f *packedFilters) bytes() int64 {
	n := int64(0)
	for i := range f.filters {
		if filter := f.filters[i].Load(); filter != nil {
			n += filter.Bytes()
		}
	}
	return n
}

// wait returns once the filters are loaded: for many queries at once that is worth it.
func (f *packedFilters) wait(ctx context.Context) error {
	loaded := make(chan struct{})
	go func() {
		f.done.Wait()
		close(loaded)
	}()
	select {
	case <-loaded:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// close stops the loading and waits for its end.
func (f *packedFilters) close() {
	f.cancel()
	f.done.Wait()
}
