package store

import (
	"encoding/binary"
	"fmt"
	"io"
	"iter"

	"github.com/cockroachdb/pebble/v2"
	"github.com/neardup/neardup/internal/fault"
	"github.com/neardup/neardup/store/internal/block"
)

// IDs is a set of document IDs: a posting, or the documents of a key's hash.
type IDs = block.IDs

// NewIDs returns the set of the given IDs, in any order. It takes over the slice.
func NewIDs(ids ...uint64) IDs { return block.NewIDs(ids...) }

// IDsOf returns the set that a bitmap holds. The bitmap must not be changed any more.
var IDsOf = block.IDsOf

// postingMerger merges the operands of one posting: the IDs that any of them
// adds, less those that any removes. An ID is never given out twice, so it can
// not come back after its removal and the order of operands is of no account.
var postingMerger = &pebble.Merger{
	Name: "neardup.posting.1",
	Merge: func(_, value []byte) (pebble.ValueMerger, error) {
		m := &postingValue{}
		return m, m.merge(value)
	},
}

type postingValue struct {
	added, removed block.IDsBuilder
}

func (m *postingValue) MergeNewer(value []byte) error { return m.merge(value) }
func (m *postingValue) MergeOlder(value []byte) error { return m.merge(value) }

func (m *postingValue) merge(operand []byte) error {
	c, err := decodeChange(operand)
	if err != nil {
		return err
	}
	m.added.Add(c.added)
	m.removed.Add(c.removed)
	return nil
}

// Finish keeps what is removed, also where nothing older is left to merge: the packed
// posting may have it. It leaves an empty posting where all IDs are removed. Pebble's
// DeletableValueMerger would drop the key, but its compactions panic, or bring
// removed values back, when they do (cockroachdb/pebble#6168, v2.1.7); so Batch
// deletes a posting that it leaves empty, and a reader takes an empty one for none.
func (m *postingValue) Finish(bool) ([]byte, io.Closer, error) {
	added, removed := m.added.Build(), m.removed.Build()
	value, err := change{added.Without(removed), removed}.append(nil)
	return value, nil, err
}

// postingChange is the codec byte of a value that adds and removes, see docs/format.md.
const postingChange = 0x03

// change is what a live posting says: the IDs to add to the packed one, and those to remove from it.
type change struct{ added, removed IDs }

// apply returns the documents of a fingerprint with this packed posting.
func (c change) apply(packed IDs) IDs {
	// An operand that nothing was merged with yet may remove what it adds itself.
	return packed.Union(c.added).Without(c.removed)
}

// append writes a posting operand.
func (c change) append(dst []byte) ([]byte, error) {
	if c.removed.Empty() {
		return c.added.Append(dst)
	}
	encoded, err := c.added.Append(nil)
	if err != nil {
		return nil, err
	}
	dst = append(dst, postingChange)
	dst = binary.AppendUvarint(dst, uint64(len(encoded)))
	return c.removed.Append(append(dst, encoded...))
}

func decodeChange(src []byte) (c change, err error) {
	if len(src) == 0 || src[0] != postingChange {
		c.added, err = block.DecodeIDs(src)
		return c, err
	}
	length, n := binary.Uvarint(src[1:])
	if n <= 0 || length > uint64(len(src)-1-n) {
		return c, fmt.Errorf("%w: posting change breaks off", fault.ErrCorrupt)
	}
	rest := src[1+n:]
	if c.added, err = block.DecodeIDs(rest[:length]); err == nil {
		c.removed, err = block.DecodeIDs(rest[length:])
	}
	return c, err
}

// Posting is a stored fingerprint and the documents that share it.
type Posting struct {
	Stored       uint64
	IDs          IDs
	Live, Packed bool // where it has an entry

	// Spread: it has live entries in all tables, since nothing that was settled before them has it; see
	// SettledPosting.
	Spread bool
}

// Postings yields the entries of table 0 from first on with their documents, in ascending order: those of
// the packed posting and those that the live one adds, less those that the live one removes. That may leave
// none.
func (v *View) Postings(first uint64) iter.Seq2[Posting, error] {
	return func(yield func(Posting, error) bool) {
		pull, stop := iter.Pull2(v.livePostings(first))
		defer stop()
		l, err, more := pull()
		// liveUpTo yields the live entries that come before a packed one, and reports whether to go on.
		liveUpTo := func(end uint64, all bool) bool {
			for more && err == nil && (all || l.stored < end) {
				if !yield(Posting{l.stored, l.apply(IDs{}), true, false, true}, nil) {
					return false
				}
				l, err, more = pull()
			}
			return err == nil || yield(Posting{}, err)
		}
		for p, packedErr := range v.packedPostings(first) {
			if packedErr != nil {
				yield(Posting{}, packedErr)
				return
			}
			if !liveUpTo(p.Stored, false) || err != nil {
				return
			}
			if p.Live = more && l.stored == p.Stored; p.Live {
				p.Spread = l.spreads(p.IDs)
				p.IDs = l.apply(p.IDs)
				l, err, more = pull()
			}
			if !yield(p, nil) {
				return
			}
		}
		liveUpTo(0, true)
	}
}

// livePosting is a live entry of table 0, of up to two epochs.
type livePosting struct {
	stored         uint64
	frozen, change change
	newest         bool // the epoch that takes writes has an entry
}

// apply returns the documents of the fingerprint with this packed posting. An ID that was removed never comes again, so the order
// of the two is of no account.
func (l *livePosting) apply(packed IDs) IDs {
	return change{l.frozen.added.Union(l.change.added), l.frozen.removed.Union(l.change.removed)}.apply(packed)
}

// spreads reports whether a fingerprint with this packed posting, which is not empty, has live entries in all
// tables: where the frozen epoch had removed all of it.
func (l *livePosting) spreads(packed IDs) bool {
	return l.newest && l.frozen.apply(packed).Empty()
}

// livePostings yields those of all epochs, merged.
func (v *View) livePostings(first uint64) iter.Seq2[livePosting, error] {
	newest := v.epochPostings(v.newest(), first)
	if len(v.live) == 1 {
		return newest
	}
	return func(yield func(livePosting, error) bool) {
		pull, stop := iter.Pull2(newest)
		defer stop()
		l, err, more := pull()
		for f, frozenErr := range v.epochPostings(v.live[0], first) {
			if frozenErr != nil {
				yield(f, frozenErr)
				return
			}
			for more && (err != nil || l.stored < f.stored) {
				if !yield(l, err) || err != nil {
					return
				}
				l, err, more = pull()
			}
			both := livePosting{stored: f.stored, frozen: f.change}
			if more && l.stored == f.stored {
				both.change, both.newest = l.change, true
				l, err, more = pull()
			}
			if !yield(both, nil) {
				return
			}
		}
		for ; more; l, err, more = pull() {
			if !yield(l, err) || err != nil {
				return
			}
		}
	}
}

func (v *View) epochPostings(live liveEntries, first uint64) iter.Seq2[livePosting, error] {
	return scan(v, live.key(0, first), tableEnd(live.keyspace, 0), func(key, value []byte) (l livePosting, err error) {
		l.newest = true
		if l.stored, err = keyNumber(key); err == nil {
			l.change, err = decodeChange(value)
		}
		return l, err
	})
}

func (v *View) packedPostings(first uint64) iter.Seq2[Posting, error] {
	return func(yield func(Posting, error) bool) {
		var fps []uint64
		for b, err := range v.PackedBlocks(0, first) {
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
				if ids, err = postings.IDs(i); err == nil && !yield(Posting{fps[i], ids, false, true, false}, nil) {
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
