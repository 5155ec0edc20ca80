package index

import (
	"context"
	"errors"
	"iter"

	"github.com/RoaringBitmap/roaring/v2/roaring64"
	"github.com/neardup/neardup/internal/store"
)

// snapshot opens a view and returns the counters of the same moment.
func (x *Index) snapshot() (*store.View, store.Counters, error) {
	x.commitMu.Lock()
	defer x.commitMu.Unlock()
	v, err := x.store.View()
	return v, x.counters, err
}

// Documents yields every document, all of one moment: first those with a record,
// by ID, then the bare ones (nothing but a fingerprint), by their fingerprint. It
// stops at the first error, which it yields. The index must not be closed from
// within the loop.
func (x *Index) Documents(ctx context.Context) iter.Seq2[Document, error] {
	return func(yield func(Document, error) bool) {
		if err := x.begin(ctx); err != nil {
			yield(Document{}, err)
			return
		}
		defer x.end()
		v, counters, err := x.snapshot()
		if err != nil {
			yield(Document{}, err)
			return
		}
		defer v.Close()
		clock, err := v.Clone()
		if err != nil {
			yield(Document{}, err)
			return
		}
		defer clock.Close()
		if err := walk(ctx, v, clock, counters.Bare > 0, yield); err != nil {
			yield(Document{}, err)
		}
	}
}

var errStopped = errors.New("stopped by the caller")

// walk yields the documents of a view; clock is another view of the same moment.
func walk(ctx context.Context, v, clock *store.View, bare bool, yield func(Document, error) bool) error {
	err := walkRecords(ctx, v, clock, yield)
	if err == nil && bare {
		err = walkBare(ctx, v, clock, yield)
	}
	if err == errStopped {
		return nil
	}
	return err
}

func walkRecords(ctx context.Context, v, clock *store.View, yield func(Document, error) bool) error {
	for r, err := range v.Records(1) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		d := documentOf(r.ID, r.Record)
		if d.Added, err = clock.Added(r.ID); err != nil {
			return err
		}
		if !yield(d, nil) {
			return errStopped
		}
	}
	return nil
}

func walkBare(ctx context.Context, v, clock *store.View, yield func(Document, error) bool) error {
	recorded := roaring64.New()
	for r, err := range v.Records(1) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		recorded.Add(r.ID)
	}
	recorded.RunOptimize()
	for p, err := range v.Postings(0) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		for id := range p.IDs.All() {
			if recorded.Contains(id) {
				continue
			}
			d := bareDocument(id, p.Stored)
			if d.Added, err = clock.Added(id); err != nil {
				return err
			}
			if !yield(d, nil) {
				return errStopped
			}
		}
	}
	return nil
}
