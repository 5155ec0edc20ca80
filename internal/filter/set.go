package filter

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"sync/atomic"
)

// Set holds the filters of all tables of a plan, either for packed entries or for live entries.
// A Set of one table whose prefix has 64 bits holds the hashes of keys.
//
// A Set is monotone: a fingerprint that was added is reported from then on. Until the Set has
// loaded the entries that were stored before it was made, it reports every fingerprint. An
// answer is therefore correct for every view of the store that was opened after the Set was made,
// if writers add fingerprints before their writes become visible.
//
// A Set is safe for concurrent use.
type Set struct {
	tables []*growing
	budget int64
	count  atomic.Int64
	loaded atomic.Bool

	unfiltered bool        // the tables have no filters
	near       *multiIndex // all fingerprints, or nil
	nearBudget int64
	known      atomic.Bool // near is complete, or has discarded its fingerprints

	cancel context.CancelFunc
	done   chan struct{} // closed at the end of loading, with or without an error
}

// Table describes a table.
type Table struct {
	Prefix  int // bits, 1 to 64
	Radius  int // of AppendCandidates
	Permute func(stored uint64) uint64
}

// Options configures a Set.
type Options struct {
	Tables []Table
	Budget int64 // bytes, divided evenly among the tables
	// bytes for a multiIndex, within the part of Budget that the tables leave; 0 means none
	Near int64

	// Unfiltered means that the tables have no filters. If the multiIndex cannot answer, every
	// prefix is a candidate.
	Unfiltered bool
	Source

	first int64 // for tests: the number of fingerprints of the first generation
}

// Source provides the entries that are stored when a Set is made.
type Source struct {
	// Expected is an approximate upper bound of the number of fingerprints of All. 0 means that
	// nothing is stored.
	Expected int64

	// Saved yields the chunks of the stored filter of a table. nil means that no filters are
	// stored.
	Saved func(table int) iter.Seq2[[]byte, error]

	// All yields every fingerprint, as it is stored. It is called if a filter cannot be loaded.
	// Since yields the fingerprints that were added after the filters were stored, or is nil.
	All, Since iter.Seq2[uint64, error]

	// Done is called when the source is no longer needed. If the error is not nil, loading failed,
	// and the Set reports every fingerprint.
	Done func(error)

	// After is a Set that loads before this one, or nil.
	After *Set
}

// NewSet returns a Set that loads in the background. The caller must close it.
func NewSet(o Options) *Set {
	s := &Set{budget: o.Budget, unfiltered: o.Unfiltered, nearBudget: o.Near,
		done: make(chan struct{})}
	for _, t := range o.Tables {
		g := newGrowing(t, o.Budget/int64(len(o.Tables)), cmp.Or(o.first, firstGeneration))
		if s.unfiltered {
			g.include(nil, 0)
		}
		s.tables = append(s.tables, g)
	}
	if o.Near > 0 {
		s.near = newMultiIndex(min(o.Near, o.Budget))
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	if o.Expected <= 0 {
		s.loaded.Store(true)
		s.known.Store(true)
		close(s.done)
		return s
	}
	s.count.Store(o.Expected)
	go func() {
		defer close(s.done)
		found, err := s.load(ctx, &o.Source)
		if err == nil {
			s.count.Add(found - o.Expected)
			s.loaded.Store(true)
			err = s.loadNear(ctx, &o.Source)
		}
		if ctx.Err() != nil {
			err = nil // the Set was closed
		}
		o.Done(err)
	}()
	return s
}

// load loads the stored fingerprints, and returns their number.
func (s *Set) load(ctx context.Context, source *Source) (found int64, err error) {
	if source.After != nil {
		if err := source.After.Wait(ctx); err != nil {
			return 0, err
		}
	}
	if s.unfiltered {
		return s.loadUnfiltered(ctx, source)
	}
	missing := s.tables
	if source.Saved != nil {
		missing = nil
		for i, t := range s.tables {
			if !ofUse(t.Prefix, source.Expected, t.budget) {
				t.include(nil, 0)
				continue
			}
			saved, err := LoadPrefix(t.Prefix, t.budget-t.bytes(), untilDone(ctx, source.Saved(i)))
			if err == nil {
				t.include(saved, source.Expected)
			} else if missing = append(missing, t); ctx.Err() != nil {
				return 0, err
			}
		}
	}
	found = source.Expected
	if len(missing) > 0 {
		for _, t := range missing {
			t.reserve(source.Expected)
		}
		s.limitNear()
		if found, err = s.scan(ctx, missing, source.All); err != nil {
			return 0, err
		}
	}
	if source.Since == nil || len(missing) == len(s.tables) {
		return found, nil
	}
	since, err := s.scan(ctx, s.tables, source.Since)
	return found + since, err
}

// loadUnfiltered loads the stored fingerprints into the multiIndex. If it is too small, all
// prefixes stay candidates.
func (s *Set) loadUnfiltered(ctx context.Context, source *Source) (found int64, err error) {
	if s.near == nil {
		return source.Expected, nil
	}
	fps, all, err := source.few(ctx, s.near.room())
	if err != nil || !all {
		return source.Expected, err
	}
	s.near.Fill(fps)
	s.known.Store(true)
	return int64(len(fps)), nil
}

// loadNear loads the multiIndex if its fingerprints were not read for the tables. Until it returns,
// the tables answer.
func (s *Set) loadNear(ctx context.Context, source *Source) error {
	if s.near == nil || s.unfiltered {
		return nil
	}
	if source.Saved != nil {
		s.limitNear()
		fps, all, err := source.few(ctx, s.near.room())
		if err != nil || !all {
			return err
		}
		s.near.Fill(fps)
	}
	s.known.Store(true)
	return nil
}

// few returns the fingerprints of All. all is false if there are more than most, or if more are
// expected.
func (s *Source) few(ctx context.Context, most int64) (fps []uint64, all bool, err error) {
	if s.Expected > most {
		return nil, false, nil
	}
	fps = make([]uint64, 0, s.Expected)
	for fp, err := range untilDone(ctx, s.All) {
		if err != nil || int64(len(fps)) == most {
			return nil, false, err
		}
		fps = append(fps, fp)
	}
	return fps, true, nil
}

func untilDone[T any](ctx context.Context, seq iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for v, err := range seq {
			if err == nil {
				err = ctx.Err()
			}
			if !yield(v, err) || err != nil {
				return
			}
		}
	}
}

// scanned is the number of fingerprints that scan adds at a time.
const scanned = 1024

// scan adds fingerprints to some tables, and returns their number.
func (s *Set) scan(
	ctx context.Context, tables []*growing, all iter.Seq2[uint64, error],
) (n int64, err error) {
	batch := make([]uint64, 0, scanned)
	for fp, err := range untilDone(ctx, all) {
		if err != nil {
			return 0, err
		}
		if batch = append(batch, fp); len(batch) == cap(batch) {
			s.addTo(tables, batch)
			n, batch = n+int64(len(batch)), batch[:0]
		}
	}
	s.addTo(tables, batch)
	return n + int64(len(batch)), nil
}

// Add adds fingerprints, as they are stored. A writer must call Add before its entries become
// visible.
func (s *Set) Add(stored ...uint64) {
	s.addTo(s.tables, stored)
	s.count.Add(int64(len(stored)))
}

func (s *Set) addTo(tables []*growing, stored []uint64) {
	s.addToTables(tables, stored)
	if s.near != nil {
		s.near.Add(stored)
	}
}

func (s *Set) addToTables(tables []*growing, stored []uint64) {
	if s.unfiltered {
		return
	}
	before := s.tableBytes()
	var permuted [4 * addAhead]uint64
	for chunk := range slices.Chunk(stored, len(permuted)) {
		for _, t := range tables {
			for j, fp := range chunk {
				permuted[j] = t.Permute(fp)
			}
			t.add(permuted[:len(chunk)])
		}
	}
	if s.tableBytes() > before {
		s.limitNear()
	}
}

// limitNear limits the multiIndex to the part of the budget that the tables do not need.
func (s *Set) limitNear() {
	if s.near == nil {
		return
	}
	s.near.Limit(min(s.nearBudget, s.budget-s.tableBytes()))
}

// AppendCandidates appends the prefixes within the radius of a table that the table may have, as
// Prefix.AppendCandidates does. The table has no other prefix within the radius. A prefix may be
// appended twice.
func (s *Set) AppendCandidates(dst []uint64, table int, permuted uint64) []uint64 {
	if s.Empty() {
		return dst
	}
	t := s.tables[table]
	if !s.loaded.Load() {
		return AppendAll(dst, t.Prefix, t.Radius)
	}
	return t.appendCandidates(dst, permuted)
}

// AppendNear appends the fingerprints within k bits of a fingerprint, all as they are stored.
// It returns false if only the tables can answer.
func (s *Set) AppendNear(dst []uint64, stored uint64, k int) ([]uint64, bool) {
	if s.near == nil || !s.known.Load() {
		return dst, false
	}
	return s.near.AppendNear(dst, stored, k)
}

// MayContain reports whether a fingerprint, given as it is stored, may have been added.
func (s *Set) MayContain(stored uint64) bool {
	if s.near != nil && s.known.Load() && !s.near.MayContain(stored) {
		return false
	}
	if !s.loaded.Load() {
		return true
	}
	for _, t := range s.tables {
		if !t.mayContain(t.Permute(stored)) {
			return false
		}
	}
	return true
}

// MayHave is like MayContain for the filter of one table and a permuted fingerprint.
func (s *Set) MayHave(table int, permuted uint64) bool {
	return !s.loaded.Load() || s.tables[table].mayContain(permuted)
}

// Empty reports whether nothing was stored and nothing was added.
func (s *Set) Empty() bool { return s.count.Load() == 0 }

// Bytes returns the memory of the Set.
func (s *Set) Bytes() int64 {
	if s.near != nil {
		return s.tableBytes() + s.near.Bytes()
	}
	return s.tableBytes()
}

func (s *Set) tableBytes() (n int64) {
	for _, t := range s.tables {
		n += t.bytes()
	}
	return n
}

// Wait waits for the end of loading. A large batch of queries should call it first.
func (s *Set) Wait(ctx context.Context) error {
	select {
	case <-s.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close stops the loading and waits for its end.
func (s *Set) Close() {
	s.cancel()
	<-s.done
}
