package index

import (
	"context"
	"slices"

	"github.com/neardup/neardup/store"
)

// DeleteIDs removes the documents that have these IDs and returns how many there were.
// An ID is never given twice: what came since under the key of a document stays. Up to
// 1,024 go in one atomic commit. A document without key, scope and Shingle is known by
// its fingerprint only, so where such ones may be among them, all fingerprints are read
// once: pass many IDs together. Errors as of Add; what is counted is gone.
func (x *Index) DeleteIDs(ctx context.Context, ids ...uint64) (deleted int, err error) {
	if err := x.beginWrite(ctx); err != nil {
		return 0, err
	}
	defer x.end()
	ids = slices.Clone(ids)
	slices.Sort(ids)
	d := &idDeletion{x: x, left: slices.Compact(ids)}
	records := d.left
	d.left = nil
	for chunk := range slices.Chunk(records, deleteChunk) {
		if err := d.remove(ctx, d.recorded(chunk)); err != nil {
			return d.deleted, err
		}
	}
	if len(d.left) == 0 {
		return d.deleted, nil
	}
	last := d.left[len(d.left)-1]
	wanted := func(id uint64) bool {
		_, found := slices.BinarySearch(d.left, id)
		return found
	}
	for first, done := uint64(0), false; !done; {
		if err := d.remove(ctx, pickBare(&first, &done, last, wanted)); err != nil {
			return d.deleted, err
		}
	}
	return d.deleted, nil
}

// idDeletion is one DeleteIDs.
type idDeletion struct {
	x       *Index
	left    []uint64 // IDs that have no record, ascending
	deleted int
}

func (d *idDeletion) remove(ctx context.Context, choose func(*store.View, *change) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	n, err := d.x.remove(ctx, &flight{alone: true, done: make(chan struct{})}, choose)
	d.deleted += n
	return err
}

// recorded picks those of some IDs that have a record, and leaves the others.
func (d *idDeletion) recorded(ids []uint64) func(*store.View, *change) error {
	return func(v *store.View, c *change) error {
		for _, id := range ids {
			r, found, err := v.Record(id)
			if err != nil {
				return err
			}
			if !found {
				d.left = append(d.left, id)
				continue
			}
			document := documentOf(id, r)
			c.remove = append(c.remove, document)
			if document.Key == "" {
				continue
			}
			if err := c.noteKey(d.x, document.Key); err != nil {
				return err
			}
		}
		return nil
	}
}
