package index

import (
	"cmp"
	"errors"
	"fmt"
	"iter"

	"github.com/neardup/neardup/internal/filter"
	"github.com/neardup/neardup/store"
)

// startFilters starts to load the filters of the packed entries, the live entries and the keys, and
// the removed IDs, in the background. It must be called before the first change, so that the views
// that it opens show all earlier writes.
func (x *Index) startFilters() (err error) {
	s := &state{tables: x.store.Tables()}
	x.state.Store(s)
	packed := x.packedOptions(s.tables.PackedEntries())
	if packed.Entries > 0 {
		v, done, err := x.loadingView("packed entries")
		if err != nil {
			return err
		}
		packed.Saved, packed.All, packed.Done = v.FilterChunks, v.Packed(0), done
	}
	s.packed = filter.NewPackedSet(packed)
	for epoch := range s.tables.Epochs() {
		live, err := x.loadEpoch(epoch)
		if err != nil {
			return err
		}
		s.live = append(s.live, live)
	}
	s.keys, err = x.keyFilter(s.tables.PackedBefore())
	return err
}

// loadEpoch starts to load the removed IDs and the live entries of an epoch.
func (x *Index) loadEpoch(epoch int) (liveEpoch, error) {
	l := x.newEpoch()
	err := errors.Join(
		x.loadStored("removed IDs", l.removed.load,
			func(v *store.View) iter.Seq2[uint64, error] { return v.RemovedIn(epoch) }),
		x.loadStored("live entries", l.Load,
			func(v *store.View) iter.Seq2[uint64, error] { return distinct(v.Live(epoch, 0)) }))
	if err != nil {
		l.close()
	}
	return l, err
}

// loadStored calls load with a sequence of stored numbers, unless the sequence is empty.
func (x *Index) loadStored(
	of string, load func(iter.Seq2[uint64, error], func(error)),
	stored func(*store.View) iter.Seq2[uint64, error],
) error {
	v, done, err := x.loadingView(of)
	if err != nil {
		return err
	}
	for _, err := range stored(v) {
		if err != nil {
			return errors.Join(err, v.Close())
		}
		load(stored(v), done)
		return nil
	}
	return v.Close()
}

// newEpoch returns the in-memory part of an empty epoch.
func (x *Index) newEpoch() liveEpoch {
	_, budget, _ := filter.Shares(x.opts.FilterBytes)
	return liveEpoch{filter.NewLiveSet(budget), newRemovedIDs()}
}

// distinct yields each fingerprint of an ascending sequence once.
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

// nearPacked is the memory of a multi-index hash that is searched instead of the packed tables. It
// suffices for 1,966,080 fingerprints. For more fingerprints, or for k above nearPackedDistance,
// the tables have fewer candidates. For k = 0, a query has one probe per table.
const (
	nearPacked         = 64 << 20
	nearPackedDistance = 3
)

func (x *Index) packedOptions(entries uint64) filter.PackedOptions {
	budget, _, _ := filter.Shares(x.opts.FilterBytes)
	o := filter.PackedOptions{Budget: budget, Entries: int64(entries)}
	for i := range x.plan.Tables {
		t := &x.plan.Tables[i]
		o.Tables = append(o.Tables,
			filter.Table{Prefix: t.Prefix, Radius: t.Radius, Permute: t.Permute})
	}
	if k := x.plan.MaxDistance; k > 0 && k <= nearPackedDistance {
		o.Near = nearPacked
	}
	return o
}

// keyFilter returns the filter of all keys. The stored filter covers the documents with IDs below
// saved.
func (x *Index) keyFilter(saved uint64) (*filter.KeySet, error) {
	_, _, budget := filter.Shares(x.opts.FilterBytes)
	o := filter.KeyOptions{Budget: budget,
		Expected: int64(x.counters.Documents - x.counters.Bare)}
	if x.opts.ReadOnly {
		o.Expected = 0 // only writes use the filter
	}
	if o.Expected > 0 {
		v, done, err := x.loadingView("keys")
		if err != nil {
			return nil, err
		}
		o.Saved, o.Since, o.All, o.Done =
			v.FilterChunks(store.KeyFilterTable), keysSince(v, saved), v.KeyHashes(), done
	}
	return filter.NewKeySet(o), nil
}

// loadingView returns a new view from which filters are loaded. done must be called with the result
// of loading. It closes the view and logs an error.
func (x *Index) loadingView(of string) (v *store.View, done func(error), err error) {
	v, err = x.store.View()
	return v, func(err error) { x.warn(of, cmp.Or(err, v.Close())) }, err
}

// warn logs the error if filters could not be built.
func (x *Index) warn(of string, err error) {
	if err != nil && x.opts.Logger != nil {
		x.opts.Logger.Warn(fmt.Sprintf(
			"filters of %s could not be built: queries are slower but correct", of), "error", err)
	}
}

func (x *Index) closeFilters() {
	if s := x.state.Load(); s != nil {
		s.close()
	}
}

// keysSince yields the hashes of the keys of the documents with IDs from first on.
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
