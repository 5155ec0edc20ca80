package index

import "github.com/neardup/neardup/internal/store"

// rewrites counts, of postings that change again and again, what was appended to each since
// it was last written whole. Every read of a posting merges all of that, so a posting of a
// million documents that go one commit after the other would be read in a time that grows
// with the square. Written whole once it has grown by as much as it has, it costs twice the
// writes, and a read costs in proportion to the posting. It is used under the commit lock.
type rewrites map[uint64]growth

// growth of a posting, in bytes.
type growth struct{ size, since int }

const (
	leastRewrite = 4 << 10
	maxRewrites  = 1 << 16 // postings that are counted; beyond, all counts begin anew

	// changeBytes is about what a change takes with its key, and idBytes each ID in it.
	changeBytes = 32
	idBytes     = 2
)

// due reports whether a posting is to be written whole, along with a change of so many IDs.
func (r rewrites) due(stored uint64, ids int) bool {
	g, counted := r[stored]
	if !counted && len(r) >= maxRewrites {
		clear(r)
	}
	g.since += changeBytes + idBytes*ids
	r[stored] = g
	return g.since >= max(leastRewrite, g.size)
}

// writePosting writes a change of a posting. there says that the fingerprint had one, live
// or packed.
func (x *Index) writePosting(batch *store.Batch, stored uint64, p *postingChange, there, packed bool) error {
	added, removed := store.NewIDs(p.added...), store.NewIDs(p.removed...)
	if !there || !x.rewrites.due(stored, len(p.added)+len(p.removed)) {
		batch.ChangePosting(stored, added, removed)
		return nil
	}
	liveAdded, liveRemoved, err := x.store.LivePosting(stored)
	if err != nil {
		return err
	}
	added, removed = liveAdded.Union(added).Without(removed), liveRemoved.Union(removed)
	if packed {
		was, err := x.store.PackedPosting(stored)
		if err != nil {
			return err
		}
		removed = was.Without(was.Without(removed))
	} else {
		removed = store.IDs{} // from what is live it is gone
	}
	x.rewrites[stored] = growth{size: batch.SetPosting(stored, added, removed)}
	return nil
}
