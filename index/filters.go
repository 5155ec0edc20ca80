package index

import (
	"errors"
	"fmt"
	"iter"

	"github.com/neardup/neardup/internal/filter"
	"github.com/neardup/neardup/internal/plan"
	"github.com/neardup/neardup/store"
)

// startFilters starts to load the filters in the background: of the packed and of the live entries
// of each table, of the removed IDs, and of the keys. It must be called before the first change, so
// that the views that it opens show everything that was stored before.
func (x *Index) startFilters(p *plan.Plan) (err error) {
	s := newState(&state{plan: p, tables: x.store.Tables()})
	x.state.Store(s)
	packed := s.tables.PackedEntries()
	s.packed, err = x.newFilters("packed entries", x.packedOptions(p), packed,
		func(v *store.View) filter.Source {
			return filter.Source{Saved: v.FilterChunks, All: v.Packed(0)}
		})
	for epoch := 0; err == nil && epoch < s.tables.Epochs(); epoch++ {
		var live liveEpoch
		if live, err = x.loadEpoch(p, epoch); err == nil {
			s.live = append(s.live, live)
		}
	}
	if err != nil {
		return err
	}
	s.keys, err = x.keyFilters(s.tables.PackedBefore(), s.newest().Set)
	return err
}

// loadEpoch starts to load an epoch.
func (x *Index) loadEpoch(p *plan.Plan, epoch int) (l liveEpoch, err error) {
	anyLive, anyRemoved := false, false
	if err = x.withView(func(v *store.View) error {
		for _, err := range v.Live(epoch, 0) {
			if anyLive = true; err != nil {
				return err
			}
			break
		}
		for _, err := range v.RemovedIn(epoch) {
			if anyRemoved = true; err != nil {
				return err
			}
			break
		}
		return nil
	}); err != nil {
		return l, err
	}
	l.removed = newRemovedIDs()
	if anyRemoved {
		v, err := x.store.View()
		if err != nil {
			return l, err
		}
		warn := x.warn("removed IDs")
		l.removed = loadRemovedIDs(v.RemovedIn(epoch),
			func(err error) { warn(errors.Join(err, v.Close())) })
	}
	expected := uint64(0)
	if anyLive {
		// all IDs since the last compaction are live
		expected = max(1, x.counters.NextID-max(x.store.Now().PackedBefore(), 1))
	}
	l.Set, err = x.newFilters("live entries", x.liveOptions(p), expected,
		func(v *store.View) filter.Source { return filter.Source{All: distinct(v.Live(epoch, 0))} })
	if err != nil {
		l.removed.close()
	}
	return l, err
}

// distinct yields each of some ascending fingerprints once.
func distinct(ascending iter.Seq2[uint64, error]) iter.Seq2[uint64, error] {
	return func(yield func(uint64, error) bool) {
		first, previous := true, uint64(0)
		for fp, err := range ascending {
			if err == nil && !first && fp == previous {
				continue
			}
			if !yield(fp, err) || err != nil {
				return
			}
			first, previous = false, fp
		}
	}
}

// nearPacked is the memory for searches of packed entries in a multi-index hash instead of the
// tables. It suffices for 1,966,080 fingerprints. For more fingerprints, or for k above
// nearPackedDistance, the tables have fewer candidates. For k = 0, a query has one probe per table.
const (
	nearPacked         = 64 << 20
	nearPackedDistance = 3
)

func (x *Index) packedOptions(p *plan.Plan) filter.Options {
	budget, _, _ := filter.Shares(x.opts.FilterBytes)
	o := filter.Options{Tables: filterTables(p), Budget: budget}
	if k := p.MaxDistance; k > 0 && k <= nearPackedDistance {
		o.Near = nearPacked
	}
	return o
}

// liveOptions are the options for the fingerprints of an epoch. If they do not fit in memory,
// every prefix of the plan is probed.
func (x *Index) liveOptions(p *plan.Plan) filter.Options {
	_, budget, _ := filter.Shares(x.opts.FilterBytes)
	return filter.Options{Tables: filterTables(p), Budget: budget, Near: budget, Unfiltered: true}
}

func filterTables(p *plan.Plan) (tables []filter.Table) {
	for i := range p.Tables {
		t := &p.Tables[i]
		tables = append(tables, filter.Table{Prefix: t.Prefix, Radius: t.Radius,
			Permute: t.Permute})
	}
	return tables
}

// keyFilters returns the filter of all keys. It loads after the Set after. The stored filter covers
// the documents with IDs below saved.
func (x *Index) keyFilters(saved uint64, after *filter.Set) (*filter.Set, error) {
	_, _, budget := filter.Shares(x.opts.FilterBytes)
	expected := x.counters.Documents - x.counters.Bare
	if x.opts.ReadOnly {
		expected = 0 // they are for writers
	}
	hash := filter.Table{Prefix: filter.KeyPrefix, Permute: func(hash uint64) uint64 {
		return hash
	}}
	return x.newFilters(
		"keys", filter.Options{Tables: []filter.Table{hash}, Budget: budget}, expected,
		func(v *store.View) filter.Source {
			return filter.Source{
				Saved: func(int) iter.Seq2[[]byte, error] {
					return v.FilterChunks(store.KeyFilterTable)
				},
				All:   v.KeyHashes(),
				Since: keysSince(v, saved),
				After: after,
			}
		})
}

// newFilters returns filters that begin with the entries of a view of this moment.
func (x *Index) newFilters(
	of string, o filter.Options, expected uint64, source func(*store.View) filter.Source,
) (*filter.Set, error) {
	if expected == 0 {
		return filter.NewSet(o), nil
	}
	v, err := x.store.View()
	if err != nil {
		return nil, err
	}
	o.Source = source(v)
	o.Expected = int64(expected)
	warn := x.warn(of)
	o.Done = func(err error) {
		if closing := v.Close(); err == nil {
			err = closing
		}
		warn(err)
	}
	return filter.NewSet(o), nil
}

// warn returns a function that logs the error of filters that could not be made.
func (x *Index) warn(of string) func(error) {
	return func(err error) {
		if err != nil && x.opts.Logger != nil {
			x.opts.Logger.Warn(fmt.Sprintf(
				"filters of %s could not be made: queries are slower, and right", of), "error", err)
		}
	}
}

func (x *Index) closeFilters() {
	if s := x.state.Load(); s != nil {
		s.close()
	}
}

// keysSince yields the hashes of the keys of the documents from an ID on.
func keysSince(v *store.View, first uint64) iter.Seq2[uint64, error] {
	return func(yield func(uint64, error) bool) {
		for r, err := range v.Records(first) {
			if err == nil && r.Key == "" {
				continue
			}
			if !yield(store.KeyHash(r.Key), err) || err != nil {
				return
			}
		}
	}
}
