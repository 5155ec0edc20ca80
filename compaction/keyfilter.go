package compaction

import (
	"context"
	"errors"

	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/index/filter"
	"github.com/neardup/neardup/internal/store"
)

// keyFilter is the filter of the keys that the index has when the work is done.
type keyFilter struct {
	ctx    context.Context
	filter *filter.Prefix // nil: none is made
	batch  []uint64
}

// newKeyFilter makes one for what the index has and so many keys that are loaded.
func newKeyFilter(ctx context.Context, s *store.Store, loaded, filterBytes int64) (f *keyFilter, err error) {
	c := s.Counters()
	f = &keyFilter{ctx: ctx}
	if n := int64(c.Documents-c.Bare) + loaded; n > 0 {
		f.filter, err = index.NewKeyFilter(n, filterBytes)
	}
	return f, err
}

// add takes the hash of a key.
func (f *keyFilter) add(hash uint64) error {
	if f.filter == nil {
		return nil
	}
	f.batch = append(f.batch, hash)
	if len(f.batch) < batchLen {
		return nil
	}
	return f.flush()
}

func (f *keyFilter) flush() error {
	f.filter.AddAll(f.batch)
	f.batch = f.batch[:0]
	return f.ctx.Err()
}

// save adds the keys that the index has and writes the filter.
func (f *keyFilter) save(s *store.Store, r *store.Replacement) error {
	if f.filter == nil {
		return nil
	}
	v, err := s.View()
	if err != nil {
		return err
	}
	for hash, err := range v.KeyHashes() {
		if err == nil {
			err = f.add(hash)
		}
		if err != nil {
			return errors.Join(err, v.Close())
		}
	}
	if err := errors.Join(v.Close(), f.flush()); err != nil {
		return err
	}
	return saveFilter(r, store.KeyFilterTable, f.filter)
}

// saveFilter writes the chunks of a filter.
func saveFilter(r *store.Replacement, table int, f *filter.Prefix) error {
	var chunk []byte
	for c := range f.Chunks() {
		chunk = f.AppendChunk(chunk[:0], c)
		if err := r.AddFilterChunk(table, c, chunk); err != nil {
			return err
		}
	}
	return nil
}
