package store

import (
	"encoding/binary"
	"fmt"
	"iter"
	"slices"

	"github.com/RoaringBitmap/roaring/v2/roaring64"
	"github.com/neardup/neardup/internal/fault"
	"github.com/neardup/neardup/store/internal/block"
)

// IDs is a set of document IDs.
type IDs = block.IDs

// NewIDs returns the set of the given IDs, in any order. It keeps and sorts the slice.
func NewIDs(ids ...uint64) IDs { return block.NewIDs(ids...) }

// Posting is a stored fingerprint and the IDs of its documents.
type Posting struct {
	Stored uint64
	IDs    IDs
}

// Postings yields the entries of table 0 from a stored fingerprint on, in ascending order, without
// removed IDs. It skips a fingerprint if all its IDs are removed.
func (v *View) Postings(first uint64) iter.Seq2[Posting, error] {
	return func(yield func(Posting, error) bool) {
		removed, err := v.Removed()
		if err != nil {
			yield(Posting{}, err)
			return
		}
		none := removed.IsEmpty()
		for p, err := range v.Entries(first) {
			if err == nil && !none {
				if p.IDs = p.IDs.WithoutAll(removed); p.IDs.Empty() {
					continue
				}
			}
			if !yield(p, err) || err != nil {
				return
			}
		}
	}
}

// Removed returns the IDs that were removed in the epochs of the view.
func (v *View) Removed() (*roaring64.Bitmap, error) {
	removed := roaring64.New()
	for i := range v.live {
		for id, err := range v.RemovedIn(i) {
			if err != nil {
				return nil, err
			}
			removed.Add(id)
		}
	}
	return removed, nil
}

// HasLive reports whether any live entry or removed ID exists.
func (v *View) HasLive() (bool, error) {
	for _, keyspace := range v.live {
		if v.it.SeekGE([]byte{keyspace}) && v.it.Key()[0] == keyspace {
			return true, nil
		}
		if err := v.it.Error(); err != nil {
			return false, translateError(err)
		}
	}
	return false, nil
}

// RemovedIn yields the IDs that were removed in an epoch, in ascending order. A frozen epoch is
// epoch 0.
func (v *View) RemovedIn(epoch int) iter.Seq2[uint64, error] {
	return v.removedFrom(epoch, 0)
}

func (v *View) removedFrom(epoch int, first uint64) iter.Seq2[uint64, error] {
	keyspace := v.live[epoch]
	return scan(v, tableKey(keyspace, removedTable, first), keyspaceEnd(keyspace),
		func(key, value []byte) (id uint64, err error) {
			if id, err = keyNumber(key, tableKeyLen); err == nil {
				err = checkEmpty(value)
			}
			return id, err
		})
}

// Entries yields the entries of table 0 from a stored fingerprint on, in ascending order, including
// removed IDs.
func (v *View) Entries(first uint64) iter.Seq2[Posting, error] {
	entries := v.packedPostings(first)
	for epoch := range v.live {
		entries = merge(entries, v.livePostings(epoch, first))
	}
	return entries
}

// merge merges two sequences of postings. A fingerprint in both sequences has the IDs of both.
func merge(a, b iter.Seq2[Posting, error]) iter.Seq2[Posting, error] {
	return func(yield func(Posting, error) bool) {
		next, stop := iter.Pull2(b)
		defer stop()
		q, qErr, more := next()
		for p, err := range a {
			if err != nil {
				yield(Posting{}, err)
				return
			}
			for more && (qErr != nil || q.Stored < p.Stored) {
				if !yield(q, qErr) || qErr != nil {
					return
				}
				q, qErr, more = next()
			}
			if more && q.Stored == p.Stored {
				p.IDs = p.IDs.Union(q.IDs)
				q, qErr, more = next()
			}
			if !yield(p, nil) {
				return
			}
		}
		for ; more; q, qErr, more = next() {
			if !yield(q, qErr) || qErr != nil {
				return
			}
		}
	}
}

// livePostings yields the live entries of table 0 of one epoch.
func (v *View) livePostings(epoch int, first uint64) iter.Seq2[Posting, error] {
	return func(yield func(Posting, error) bool) {
		var stored uint64
		var ids []uint64
		for e, err := range v.liveEntries(epoch, 0, first) {
			if err != nil {
				yield(Posting{}, err)
				return
			}
			if e.permuted != stored && len(ids) > 0 {
				if !yield(Posting{stored, NewIDs(slices.Clone(ids)...)}, nil) {
					return
				}
				ids = ids[:0]
			}
			stored, ids = e.permuted, append(ids, e.id)
		}
		if len(ids) > 0 {
			yield(Posting{stored, NewIDs(ids...)}, nil)
		}
	}
}

// liveEntry is a live entry. Only entries of table 0 have an ID.
type liveEntry struct{ permuted, id uint64 }

// liveEntries yields the live entries of a table in an epoch, from a fingerprint on.
func (v *View) liveEntries(epoch, table int, first uint64) iter.Seq2[liveEntry, error] {
	keyspace, length := v.live[epoch], tableKeyLen
	if table == 0 {
		length = liveKeyLen
	}
	start := tableStart(keyspace, table)
	if first > 0 {
		start = binary.BigEndian.AppendUint64(start, first)
	}
	return scan(v, start, tableEnd(keyspace, table),
		func(key, value []byte) (e liveEntry, err error) {
			if len(key) != length || len(value) > 0 {
				return e, fmt.Errorf("%w: a key of %d bytes and a value of %d bytes",
					fault.ErrCorrupt, len(key), len(value))
			}
			e.permuted = binary.BigEndian.Uint64(key[3:])
			if table > 0 {
				return e, nil
			}
			if e.id = binary.BigEndian.Uint64(key[tableKeyLen:]); e.id == 0 {
				err = fmt.Errorf("%w: ID 0", fault.ErrCorrupt)
			}
			return e, err
		})
}

// Live yields the live entries of a table in an epoch, in ascending order. For table 0, it yields a
// fingerprint once for each of its documents.
func (v *View) Live(epoch, table int) iter.Seq2[uint64, error] {
	return mapped(v.liveEntries(epoch, table, 0), func(e liveEntry) uint64 { return e.permuted })
}

// LastLiveID returns the largest ID of the live entries of an epoch, including removed IDs. It is 0
// if there are none. It reads all live entries of table 0.
func (v *View) LastLiveID(epoch int) (last uint64, err error) {
	for e, err := range v.liveEntries(epoch, 0, 0) {
		if err != nil {
			return 0, err
		}
		last = max(last, e.id)
	}
	return last, nil
}

// packedPostings yields the packed entries of table 0.
func (v *View) packedPostings(first uint64) iter.Seq2[Posting, error] {
	return func(yield func(Posting, error) bool) {
		var fps []uint64
		for b, err := range v.packedBlocks(0, first) {
			if err != nil {
				yield(Posting{}, err)
				return
			}
			fps = b.AppendTo(fps[:0])
			postings, err := b.Postings()
			for i := 0; err == nil && i < len(fps); i++ {
				if fps[i] < first {
					continue
				}
				var ids IDs
				if ids, err = postings.IDs(i); err == nil && !yield(Posting{fps[i], ids}, nil) {
					return
				}
			}
			if err != nil {
				yield(Posting{}, fmt.Errorf("packed block of %016x: %w", b.Last(), err))
				return
			}
		}
	}
}
