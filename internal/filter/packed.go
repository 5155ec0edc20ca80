package filter

import (
	"context"
	"iter"
	"sync/atomic"
)

// PackedSet has the filters of the packed tables of a plan, and all packed fingerprints if they fit
// in PackedOptions.Near. Until it has loaded its filters, it reports every fingerprint. It is safe
// for concurrent use.
type PackedSet struct {
	Loading
	tables  []Table
	empty   bool
	filters atomic.Pointer[[]*Prefix]  // nil until they are loaded; a nil filter reports everything
	near    atomic.Pointer[multiIndex] // all fingerprints, or nil
}

// Table describes a packed table.
type Table struct {
	Prefix  int // bits, 1 to 64
	Radius  int // of AppendCandidates
	Permute func(stored uint64) uint64
}

// PackedOptions configures a PackedSet.
type PackedOptions struct {
	Tables []Table
	Budget int64 // bytes, divided evenly among the tables
	// Near is the number of bytes for a search of all fingerprints in memory, within the part of
	// Budget that the filters leave. 0: no search in memory.
	Near int64

	Entries int64 // the approximate number of packed fingerprints
	// Saved yields the chunks of the stored filter of a table.
	Saved func(table int) iter.Seq2[[]byte, error]
	// All yields the packed stored fingerprints. It is called if a filter cannot be loaded, and for
	// the search in memory.
	All iter.Seq2[uint64, error]
	// Done is called with the error of the loading, unless Entries is 0.
	Done func(error)
}

// NewPackedSet returns a set that loads in the background. The caller must close it.
func NewPackedSet(o PackedOptions) *PackedSet {
	s := &PackedSet{tables: o.Tables, empty: o.Entries <= 0}
	if !s.empty {
		s.Start(func(ctx context.Context) error { return s.load(ctx, &o) }, o.Done)
	}
	return s
}

func (s *PackedSet) load(ctx context.Context, o *PackedOptions) error {
	filters, err := loadFilters(ctx, o)
	if err != nil {
		return err
	}
	s.filters.Store(&filters)
	near := newMultiIndex(min(o.Near, o.Budget-s.Bytes()))
	room := near.room()
	if o.Entries > room {
		return nil
	}
	fps, few, err := atMost(ctx, o.All, o.Entries, room)
	if err != nil || !few {
		return err
	}
	near.Fill(fps)
	s.near.Store(near)
	return nil
}

// loadFilters loads the stored filters. It builds a filter if its stored form is unusable.
func loadFilters(ctx context.Context, o *PackedOptions) (filters []*Prefix, err error) {
	filters = make([]*Prefix, len(o.Tables))
	budget := o.Budget / int64(len(o.Tables))
	var missing []int
	for i, t := range o.Tables {
		if !ofUse(t.Prefix, o.Entries, budget) {
			continue
		}
		filters[i], err = LoadPrefix(t.Prefix, budget, untilDone(ctx, o.Saved(i)))
		if ctx.Err() != nil {
			return nil, err
		}
		if err != nil {
			filters[i] = New(t.Prefix, o.Entries, budget)
			missing = append(missing, i)
		}
	}
	if len(missing) == 0 {
		return filters, nil
	}
	for fp, err := range untilDone(ctx, o.All) {
		if err != nil {
			return nil, err
		}
		for _, i := range missing {
			filters[i].Add(o.Tables[i].Permute(fp))
		}
	}
	return filters, nil
}

// AppendCandidates appends the prefixes within the radius of a table that the table may have, like
// Prefix.AppendCandidates. The table has no other prefix within the radius.
func (s *PackedSet) AppendCandidates(dst []uint64, table int, permuted uint64) []uint64 {
	if s.empty {
		return dst
	}
	t := &s.tables[table]
	if filters := s.filters.Load(); filters != nil && (*filters)[table] != nil {
		return (*filters)[table].AppendCandidates(dst, permuted, t.Radius)
	}
	return AppendAll(dst, t.Prefix, t.Radius)
}

// AppendNear appends the stored fingerprints within k bits of a stored fingerprint. It returns
// false if the tables must be searched instead.
func (s *PackedSet) AppendNear(dst []uint64, stored uint64, k int) ([]uint64, bool) {
	if near := s.near.Load(); near != nil {
		return near.AppendNear(dst, stored, k)
	}
	return dst, false
}

// MayContain reports whether the tables may have a stored fingerprint.
func (s *PackedSet) MayContain(stored uint64) bool {
	if near := s.near.Load(); s.empty || near != nil && !near.MayContain(stored) {
		return false
	}
	if filters := s.filters.Load(); filters != nil {
		for i, f := range *filters {
			if f != nil && !f.MayContain(s.tables[i].Permute(stored)) {
				return false
			}
		}
	}
	return true
}

// Bytes returns the memory of the set.
func (s *PackedSet) Bytes() (n int64) {
	if filters := s.filters.Load(); filters != nil {
		for _, f := range *filters {
			if f != nil {
				n += f.Bytes()
			}
		}
	}
	if near := s.near.Load(); near != nil {
		n += near.Bytes()
	}
	return n
}
