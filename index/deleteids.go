package index

import (
	"context"
	"slices"

	"github.com/neardup/neardup/internal/store"
)

// DeleteIDs removes the documents that have these IDs and returns how many there were.
// An ID is never given twice: what came since under the key of a document stays. Up to
// 1,024 go in one atomic commit. A document without key, scope, Shingle and length is known
// by its fingerprint only, so where such ones may be among them, all fingerprints are read
// once: pass many IDs together. Errors as of Add; what is counted is gone.
func (x *Index) DeleteIDs(ctx context.Context, ids ...uint64) (deleted int, err error) {
	if err := x.beginWrite(ctx); err != nil {
		return 0, err
	}
	defer x.end()
	ids = slices.Clone(ids)
	slices.Sort(ids)
	var bare []uint64 // IDs that have no record, ascending
	for chunk := range slices.Chunk(slices.Compact(ids), deleteChunk) {
		if err := x.removePart(ctx, x.pickRecorded(chunk, &bare), &deleted); err != nil {
			return deleted, err
		}
	}
	if len(bare) == 0 {
		return deleted, nil
	}
	last := bare[len(bare)-1]
	wanted := func(id uint64) bool {
		_, found := slices.BinarySearch(bare, id)
		return found
	}
	return deleted, x.removeBare(ctx, last, wanted, &deleted)
}

// pickRecorded picks those of some IDs that have a record, and adds the others to bare.
func (x *Index) pickRecorded(ids []uint64, bare *[]uint64) func(*store.View, *change) error {
	return func(v *store.View, c *change) error {
		for _, id := range ids {
			r, found, err := v.Record(id)
			if err != nil {
				return err
			}
			if !found {
				*bare = append(*bare, id)
				continue
			}
			c.remove = append(c.remove, documentOf(id, r))
		}
		return c.noteKeys(x)
	}
}
