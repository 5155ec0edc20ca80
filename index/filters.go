package index

import (
	"fmt"
	"iter"
	"math"

	"github.com/neardup/neardup/index/plan"
	"github.com/neardup/neardup/internal/filter"
	"github.com/neardup/neardup/internal/store"
)

// startFilters begins to load, in the background, what says where to look: the filters
// of the packed and of the live entries of each table, and of the keys. It must be called
// before the first change: the views that it opens then show all that was stored before
// anything was added.
func (x *Index) startFilters() error {
	packed, live, keys := filter.Shares(x.opts.FilterBytes)
	var tables []filter.Table
	for i := range x.plan.Tables {
		t := &x.plan.Tables[i]
		tables = append(tables, filter.Table{Prefix: t.Prefix, Radius: t.Radius, Permute: t.Permute})
	}
	hasLive, err := x.store.HasLive()
	if err != nil {
		return err
	}
	n := x.counters.Documents
	x.packed, err = x.newFilters("packed entries", filter.Options{Tables: tables, Budget: packed}, x.store.PackedEntries(),
		func(v *store.View) filter.Source {
			return filter.Source{Saved: func(table int) iter.Seq2[[]byte, error] { return x.store.FilterChunks(table) }, All: packedStored(v)}
		})
	if err != nil {
		return err
	}
	expected := uint64(0)
	if hasLive {
		expected = max(n, x.store.PackedEntries()+1) - x.store.PackedEntries()
	}
	x.live, err = x.newFilters("live entries", filter.Options{Tables: tables, Budget: live, Near: wantsNear(x.plan)}, expected,
		func(v *store.View) filter.Source { return filter.Source{All: v.Live(0)} })
	if err != nil {
		return err
	}
	if expected = n - x.counters.Bare; x.opts.ReadOnly {
		expected = 0 // they are for writers
	}
	hash := filter.Table{Prefix: filter.KeyPrefix, Permute: func(hash uint64) uint64 { return hash }}
	x.keys, err = x.newFilters("keys", filter.Options{Tables: []filter.Table{hash}, Budget: keys}, expected,
		func(v *store.View) filter.Source {
			return filter.Source{
				Saved: func(int) iter.Seq2[[]byte, error] { return x.store.FilterChunks(store.KeyFilterTable) },
				All:   v.KeyHashes(),
				Since: keysSince(v, x.store.Meta().NextID),
			}
		})
	return err
}

// newFilters returns filters that begin with what a view of this moment has.
func (x *Index) newFilters(of string, o filter.Options, expected uint64, source func(*store.View) filter.Source) (*filter.Set, error) {
	if expected == 0 {
		return filter.NewSet(o), nil
	}
	v, err := x.store.View()
	if err != nil {
		return nil, err
	}
	o.Source = source(v)
	o.Expected = int64(expected)
	o.Done = func(err error) {
		if closing := v.Close(); err == nil {
			err = closing
		}
		if err != nil && x.opts.Logger != nil {
			x.opts.Logger.Warn(fmt.Sprintf("filters of %s could not be made: queries are slower, and right", of), "error", err)
		}
	}
	return filter.NewSet(o), nil
}

func (x *Index) closeFilters() {
	for _, s := range []*filter.Set{x.packed, x.live, x.keys} {
		if s != nil {
			s.Close()
		}
	}
}

// wantsNear reports whether a plan's probes of a million live fingerprints would meet too
// many prefixes that are there.
func wantsNear(p *plan.Plan) bool {
	const live, most = 1 << 20, 8
	passing := 0.0
	for _, t := range p.Tables {
		passing += float64(t.Probes()) * min(1, math.Ldexp(live, -t.Prefix))
	}
	return passing > most
}

// packedStored yields the fingerprints that are packed.
func packedStored(v *store.View) iter.Seq2[uint64, error] {
	return func(yield func(uint64, error) bool) {
		var fps []uint64
		for b, err := range v.PackedBlocks(0, 0) {
			if err != nil {
				yield(0, err)
				return
			}
			fps = b.AppendTo(fps[:0])
			for _, fp := range fps {
				if !yield(fp, nil) {
					return
				}
			}
		}
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
