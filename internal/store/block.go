package store

import (
	"github.com/RoaringBitmap/roaring/v2/roaring64"
	"github.com/neardup/neardup/internal/store/block"
)

// Block is a packed block, as PackedTable gives it.
type Block = block.Block

// BlockOptions say how a table is cut into blocks.
type BlockOptions = block.Options

// IDs is a set of document IDs: a posting, or the documents of a key's hash.
type IDs = block.IDs

// NewIDs returns the set of the given IDs, in any order. It takes over the slice.
func NewIDs(ids ...uint64) IDs { return block.NewIDs(ids...) }

// IDsOf returns the set that a bitmap holds. The bitmap must not be changed any more.
func IDsOf(bitmap *roaring64.Bitmap) IDs { return block.IDsOf(bitmap) }
